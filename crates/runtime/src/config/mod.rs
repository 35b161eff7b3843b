//! A component's settings, from flags, environment and file, read once at start with all mistakes reported together.
//!
//! Called by each command in `cli`. Every source gives text under the flag's name, so one parser per setting serves all
//! three: `--cluster-cidr`, `TWINSTACK_PROXY_CLUSTER_CIDR` and the file's key `cluster-cidr` mean the same and are
//! checked the same. The flag wins over the environment, the environment over the file, the file over the default.
//!
//! ```
//! # use runtime::config::{DefaultFlag, Flag, Mistakes, Settings};
//! const PORT: DefaultFlag<u16> = Flag::new("port", "PORT", "a port from 0 to 65535", parsed, "where to listen").or("53");
//! const ZONE: Flag<String> = Flag::new("zone", "DOMAIN", "a domain name", parsed, "what to answer for");
//!
//! fn parsed<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
//!     text.parse().map_err(|error: T::Err| error.to_string())
//! }
//!
//! struct Dns { port: u16, zone: String }
//!
//! fn read(settings: Settings) -> Result<Dns, Mistakes> {
//!     settings.read(|given| {
//!         let port = given.get(&PORT);
//!         let zone = given.required(&ZONE);
//!         Some(Dns { port, zone: zone? })
//!     })
//! }
//!
//! let flags = [("zone".to_owned(), "cluster.local".to_owned())];
//! let dns = read(Settings::new("dns").flags(flags))?;
//! assert_eq!((dns.port, dns.zone.as_str()), (53, "cluster.local"));
//! # Ok::<(), Mistakes>(())
//! ```

pub mod document;
mod file;
mod flag;
mod mistakes;
mod settings;

pub use flag::{AnyFlag, DefaultFlag, Flag};
pub use mistakes::{Mistake, Mistakes, SettingSource};
pub use settings::Settings;
