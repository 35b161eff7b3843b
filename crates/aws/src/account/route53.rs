//! Hosted zones and records: what Route53 takes and tells.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedZone {
    /// Its id, without `/hostedzone/` in front.
    pub id: String,
    /// Its name, with a final dot.
    pub name: String,
}

/// Where a page of records begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPosition {
    /// The name of the first record.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// What tells it from others of the same name and type.
    pub identifier: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSet {
    /// Its name, as Route53 writes it.
    pub name: String,
    /// `A`, `AAAA`, `CNAME`.
    pub kind: String,
    /// Where it leads.
    pub leads: Leads,
    /// All of it as it was read, in Route53's own words: only what is given in full is deleted.
    pub as_read: Option<String>,
}

/// Where a record set leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// An alias of a name in a zone.
    Alias {
        target: String,
        /// The id of the name's zone.
        zone: String,
    },
    /// A plain name.
    Name {
        target: String,
        /// Seconds that it may be kept.
        ttl: i64,
    },
    /// Anything else, among it sets that share their name with others by weight, place or health: never ours.
    Elsewhere,
}

/// A change of a record set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// It is so from now on.
    Write(RecordSet),
    /// It goes.
    Delete(RecordSet),
}
