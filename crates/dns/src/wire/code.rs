//! Numbers of record types, classes, response codes and opcodes, with the names that Corefiles and logs use.

macro_rules! codes {
    ($(#[$about:meta])* $names:ident, $number:ident, $name:ident; $($constant:ident $text:literal = $value:literal),* $(,)?) => {
        $(#[doc = concat!("`", $text, "`.")] pub const $constant: u16 = $value;)*
        $(#[$about])*
        pub const $names: &[(&str, u16)] = &[$(($text, $value)),*];
        /// The number of a name, which is in capitals.
        #[must_use]
        pub fn $number(text: &str) -> Option<u16> {
            $names.iter().find(|(name, _)| *name == text).map(|(_, number)| *number)
        }
        /// The name of a number, if it has one.
        #[must_use]
        pub fn $name(number: u16) -> Option<&'static str> {
            $names.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
        }
    };
}

/// Record types.
pub mod rtype {
    codes! {
        /// Every record type that has a name here.
        ALL, number, name;
        A "A" = 1, NS "NS" = 2, MD "MD" = 3, MF "MF" = 4, CNAME "CNAME" = 5, SOA "SOA" = 6, MB "MB" = 7, MG "MG" = 8,
        MR "MR" = 9, NULL "NULL" = 10, PTR "PTR" = 12, HINFO "HINFO" = 13, MINFO "MINFO" = 14, MX "MX" = 15,
        TXT "TXT" = 16, RP "RP" = 17, AFSDB "AFSDB" = 18, X25 "X25" = 19, ISDN "ISDN" = 20, RT "RT" = 21,
        SIG "SIG" = 24, KEY "KEY" = 25, PX "PX" = 26, GPOS "GPOS" = 27, AAAA "AAAA" = 28, LOC "LOC" = 29, NXT "NXT" = 30,
        EID "EID" = 31, NIMLOC "NIMLOC" = 32, SRV "SRV" = 33, ATMA "ATMA" = 34, NAPTR "NAPTR" = 35, KX "KX" = 36,
        CERT "CERT" = 37, DNAME "DNAME" = 39, OPT "OPT" = 41, APL "APL" = 42, DS "DS" = 43, SSHFP "SSHFP" = 44,
        IPSECKEY "IPSECKEY" = 45, RRSIG "RRSIG" = 46, NSEC "NSEC" = 47, DNSKEY "DNSKEY" = 48, DHCID "DHCID" = 49,
        NSEC3 "NSEC3" = 50, NSEC3PARAM "NSEC3PARAM" = 51, TLSA "TLSA" = 52, SMIMEA "SMIMEA" = 53, HIP "HIP" = 55,
        NINFO "NINFO" = 56, RKEY "RKEY" = 57, TALINK "TALINK" = 58, CDS "CDS" = 59, CDNSKEY "CDNSKEY" = 60,
        OPENPGPKEY "OPENPGPKEY" = 61, CSYNC "CSYNC" = 62, ZONEMD "ZONEMD" = 63, SVCB "SVCB" = 64, HTTPS "HTTPS" = 65,
        SPF "SPF" = 99, UINFO "UINFO" = 100, UID "UID" = 101, GID "GID" = 102, UNSPEC "UNSPEC" = 103, NID "NID" = 104,
        L32 "L32" = 105, L64 "L64" = 106, LP "LP" = 107, EUI48 "EUI48" = 108, EUI64 "EUI64" = 109, TKEY "TKEY" = 249,
        TSIG "TSIG" = 250, IXFR "IXFR" = 251, AXFR "AXFR" = 252, MAILB "MAILB" = 253, MAILA "MAILA" = 254, ANY "ANY" = 255,
        URI "URI" = 256, CAA "CAA" = 257, AVC "AVC" = 258, TA "TA" = 32768, DLV "DLV" = 32769,
    }

    /// The name, or RFC 3597's `TYPE1234`.
    #[must_use]
    pub fn text(number: u16) -> String {
        name(number).map_or_else(|| format!("TYPE{number}"), str::to_owned)
    }
}

/// Record classes.
pub mod class {
    codes! {
        /// Every class.
        ALL, number, name;
        IN "IN" = 1, CS "CS" = 2, CH "CH" = 3, HS "HS" = 4, NONE "NONE" = 254, ANY "ANY" = 255,
    }

    /// The name, or RFC 3597's `CLASS1234`.
    #[must_use]
    pub fn text(number: u16) -> String {
        name(number).map_or_else(|| format!("CLASS{number}"), str::to_owned)
    }
}

/// Response codes; those above 15 need EDNS.
pub mod rcode {
    codes! {
        /// Every response code.
        ALL, number, name;
        NOERROR "NOERROR" = 0, FORMERR "FORMERR" = 1, SERVFAIL "SERVFAIL" = 2, NXDOMAIN "NXDOMAIN" = 3, NOTIMP "NOTIMP" = 4,
        REFUSED "REFUSED" = 5, YXDOMAIN "YXDOMAIN" = 6, YXRRSET "YXRRSET" = 7, NXRRSET "NXRRSET" = 8, NOTAUTH "NOTAUTH" = 9,
        NOTZONE "NOTZONE" = 10, BADVERS "BADVERS" = 16, BADKEY "BADKEY" = 17, BADTIME "BADTIME" = 18, BADMODE "BADMODE" = 19,
        BADNAME "BADNAME" = 20, BADALG "BADALG" = 21, BADTRUNC "BADTRUNC" = 22, BADCOOKIE "BADCOOKIE" = 23,
    }

    /// The name, or the number.
    #[must_use]
    pub fn text(number: u16) -> String {
        name(number).map_or_else(|| number.to_string(), str::to_owned)
    }
}

/// EDNS options (RFC 6891 and the RFCs that add to it).
pub mod option {
    /// Name server identifier, RFC 5001.
    pub const NSID: u16 = 3;
    /// RFC 7873.
    pub const COOKIE: u16 = 10;
    /// How long a connection may be idle, RFC 7828.
    pub const KEEPALIVE: u16 = 11;
    /// RFC 7830.
    pub const PADDING: u16 = 12;
    /// Extended error, RFC 8914.
    pub const EDE: u16 = 15;

    /// Whether an option is between two hosts, and goes no further than to the next.
    #[must_use]
    pub fn is_between_hosts(code: u16) -> bool {
        matches!(code, COOKIE | KEEPALIVE | PADDING)
    }
}
