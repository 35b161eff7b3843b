//! As whom HAProxy runs, and what it sees: once it has read its files and opened its ports it is a user of its own, in a folder
//! with nothing but the sockets that it talks to itself and to the router through.
//!
//! That takes root, and the rights to give it up. A router without them runs HAProxy as itself and says why.

use std::{fs, str::FromStr};

/// Who HAProxy is to be (`--haproxy-user`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum User {
    /// `haproxy` where there is such a user, otherwise a number that nobody has.
    #[default]
    Usual,
    /// Of this name.
    Named(String),
    /// These numbers.
    Ids(Jail),
    /// The router's own, without a folder of its own.
    Keep,
}

/// User and group in the folder of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jail {
    /// The user.
    pub uid: u32,
    /// The group, the only one.
    pub gid: u32,
}

/// Where there is no user `haproxy`: below those that systems give a meaning.
const NOBODY_ELSE: Jail = Jail { uid: 65_533, gid: 65_533 };

/// What root must be able to do, by its number among capabilities.
const NEEDED: [(u32, &str); 5] =
    [(0, "CAP_CHOWN"), (5, "CAP_KILL"), (6, "CAP_SETGID"), (7, "CAP_SETUID"), (18, "CAP_SYS_CHROOT")];

impl FromStr for User {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|id| *id != 0 && *id != u32::MAX);
        let ids = match text.split_once(':') {
            Some((uid, gid)) => number(uid).zip(number(gid)),
            None => number(text).map(|id| (id, id)),
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        match text {
            "" => Ok(Self::Usual),
            "none" => Ok(Self::Keep),
            "root" => Err("is root"),
            _ if ids.is_some() => Ok(ids.map_or(Self::Usual, |(uid, gid)| Self::Ids(Jail { uid, gid }))),
            name if name.bytes().all(plain)
                && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') =>
            {
                Ok(Self::Named(name.to_owned()))
            }
            _ => Err("is no user"),
        }
    }
}

/// What this process may do, and whom it knows: the texts of files.
#[derive(Clone, Copy, Debug)]
struct Machine<'a> {
    is_root: bool,
    passwd: &'a str,
    status: &'a str,
    uid_map: &'a str,
    gid_map: &'a str,
}

impl User {
    /// Who HAProxy becomes; an error says why it cannot become anybody else than the router is.
    pub fn jail(&self) -> Result<Jail, String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        self.jail_on(Machine {
            is_root: rustix::process::geteuid().is_root(),
            passwd: &read("/etc/passwd"),
            status: &read("/proc/self/status"),
            uid_map: &read("/proc/self/uid_map"),
            gid_map: &read("/proc/self/gid_map"),
        })
    }

    fn jail_on(&self, machine: Machine<'_>) -> Result<Jail, String> {
        let jail = match self {
            Self::Keep => return Err("--haproxy-user is none".to_owned()),
            Self::Ids(jail) => *jail,
            Self::Usual => named(machine.passwd, "haproxy").unwrap_or(NOBODY_ELSE),
            Self::Named(name) => {
                let found = named(machine.passwd, name);
                found.ok_or_else(|| format!("--haproxy-user: this machine knows no user {name:?} other than root"))?
            }
        };
        if !machine.is_root {
            return Err("the router is not root".to_owned());
        }
        let effective = machine.status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(u64::MAX);
        let missing: Vec<&str> =
            NEEDED.iter().filter(|(bit, _)| effective >> bit & 1 == 0).map(|(_, name)| *name).collect();
        if !missing.is_empty() {
            return Err(format!("the router is root without {}", missing.join(", ")));
        }
        match is_mapped(machine.uid_map, jail.uid) && is_mapped(machine.gid_map, jail.gid) {
            true => Ok(jail),
            false => Err(format!("this user namespace has no user {}:{}", jail.uid, jail.gid)),
        }
    }
}

/// A user of the machine, but not root.
fn named(passwd: &str, name: &str) -> Option<Jail> {
    passwd.lines().find_map(|line| match line.split(':').collect::<Vec<_>>()[..] {
        [known, _, uid, gid, ..] if known == name => Some(Jail {
            uid: uid.parse().ok().filter(|uid| *uid != 0)?,
            gid: gid.parse().ok().filter(|gid| *gid != 0)?,
        }),
        _ => None,
    })
}

/// Whether a user namespace has this number; a kernel without them has every number.
fn is_mapped(map: &str, id: u32) -> bool {
    let holds = |line: &str| {
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (first, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some((first..first + count).contains(&u64::from(id)))
    };
    map.trim().is_empty() || map.lines().filter_map(holds).any(|holds| holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Machine<'_> = Machine {
        is_root: true,
        passwd: "root:x:0:0:root:/root:/bin/sh\nhaproxy:x:101:102::/var/lib/haproxy:/usr/sbin/nologin\n",
        status: "Name:\tx\nCapEff:\t000001ffffffffff\n",
        uid_map: "         0          0 4294967295\n",
        gid_map: "         0          0 4294967295\n",
    };

    #[test]
    fn haproxy_becomes_somebody_where_that_is_possible() {
        let image = "root:x:0:0:root:/:/\n";
        for (flag, machine, expected) in [
            ("", ROOT, Ok((101, 102))),
            ("", Machine { passwd: image, ..ROOT }, Ok((65_533, 65_533))),
            ("haproxy", ROOT, Ok((101, 102))),
            ("1000", ROOT, Ok((1000, 1000))),
            ("1000:2000", ROOT, Ok((1000, 2000))),
            ("none", ROOT, Err("--haproxy-user is none")),
            ("other", ROOT, Err("--haproxy-user: this machine knows no user \"other\" other than root")),
            ("", Machine { is_root: false, ..ROOT }, Err("the router is not root")),
            (
                "",
                Machine { status: "CapEff:\t00000000000004a0\n", ..ROOT },
                Err("the router is root without CAP_CHOWN, CAP_SETGID, CAP_SYS_CHROOT"),
            ),
            ("", Machine { uid_map: "0 1000 1\n", ..ROOT }, Err("this user namespace has no user 101:102")),
        ] {
            let found = flag.parse::<User>().unwrap().jail_on(machine);
            let found = found.as_ref().map(|jail| (jail.uid, jail.gid)).map_err(String::as_str);
            assert_eq!(found, expected, "{flag:?} {machine:?}");
        }
        for bad in ["root", "0", "0:5", "5:0", "a b", "1x", "-1", "x:y"] {
            assert!(bad.parse::<User>().is_err(), "{bad:?}");
        }
    }
}
