//! How kubelets are reached, as the administrator says: `--kubelet-*`. Made by `cli`, kept by `Kubelets`.

use super::reach::Reach;
use runtime::pki::{Bundle, Identity};
use std::{fmt, str::FromStr, time::Duration};

/// The flags of this room.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--kubelet-certificate-authority`; without it a kubelet's certificate is not checked, as upstream has it.
    pub authorities: Option<Bundle>,
    /// `--kubelet-client-certificate` and `--kubelet-client-key`: who this server is to kubelets.
    pub identity: Option<Identity>,
    /// `--kubelet-preferred-address-types`: which of a node's addresses are tried, in this order.
    pub address_types: AddressTypes,
    /// `--kubelet-timeout`: how long it may take to reach one address, with its TLS handshake.
    pub timeout: Duration,
    /// `--kubelet-port`: the port of nodes that do not report one.
    pub port: u16,
    /// Where proxied requests may go.
    pub reach: Reach,
    /// The port that this server listens on: nobody makes it talk to itself.
    pub own_port: Option<u16>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            authorities: None,
            identity: None,
            address_types: AddressTypes::default(),
            timeout: Duration::from_secs(5),
            port: 10250,
            reach: Reach::GlobalUnicast,
            own_port: None,
        }
    }
}

/// A sort of node address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressType {
    Hostname,
    InternalDNS,
    InternalIP,
    ExternalDNS,
    ExternalIP,
}

impl AddressType {
    const ALL: [Self; 5] = [Self::Hostname, Self::InternalDNS, Self::InternalIP, Self::ExternalDNS, Self::ExternalIP];

    /// As it stands in a Node.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hostname => "Hostname",
            Self::InternalDNS => "InternalDNS",
            Self::InternalIP => "InternalIP",
            Self::ExternalDNS => "ExternalDNS",
            Self::ExternalIP => "ExternalIP",
        }
    }
}

/// Sorts of address in order of preference: at least one, none twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressTypes(Vec<AddressType>);

impl AddressTypes {
    pub fn iter(&self) -> impl Iterator<Item = AddressType> + '_ {
        self.0.iter().copied()
    }
}

impl Default for AddressTypes {
    fn default() -> Self {
        Self(AddressType::ALL.to_vec())
    }
}

impl fmt::Display for AddressTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(","))
    }
}

/// What is wrong with a list of address types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct AddressTypesError(Vec<String>);

impl FromStr for AddressTypes {
    type Err = AddressTypesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut types = Vec::new();
        let mut mistakes = Vec::new();
        for word in text.split(',').map(str::trim) {
            match AddressType::ALL.into_iter().find(|known| known.name() == word) {
                None => mistakes.push(format!("{word:?} is no address type; accepted: {}", Self::default())),
                Some(known) if types.contains(&known) => mistakes.push(format!("{word} stands twice")),
                Some(known) => types.push(known),
            }
        }
        if mistakes.is_empty() { Ok(Self(types)) } else { Err(AddressTypesError(mistakes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_types_are_read_in_order_and_all_mistakes_named() {
        let types: AddressTypes = "InternalIP, Hostname".parse().unwrap();
        assert_eq!(types.iter().collect::<Vec<_>>(), [AddressType::InternalIP, AddressType::Hostname]);
        assert_eq!(AddressTypes::default().to_string(), "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP");
        let error = "internalip,Hostname,Hostname".parse::<AddressTypes>().unwrap_err();
        let all = "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP";
        assert_eq!(
            error.to_string(),
            format!("\"internalip\" is no address type; accepted: {all}; Hostname stands twice")
        );
        assert!("".parse::<AddressTypes>().is_err());
    }

    proptest::proptest! {
        #[test]
        fn what_is_accepted_is_written_as_it_was_read(text in "(Hostname|InternalIP|ExternalIP|InternalDNS|[a-z ,]){0,4}(,(Hostname|ExternalDNS))?") {
            if let Ok(types) = text.parse::<AddressTypes>() {
                proptest::prop_assert_eq!(types.to_string().parse::<AddressTypes>(), Ok(types));
            }
        }
    }
}
