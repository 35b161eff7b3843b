//! The Corefile: right for our own server and for a stock CoreDNS. Pure.
//!
//! Templates are in every block that answers, in the same order: most specific zone first, then by name. A template whose
//! zone contains the cluster domain leaves that out with patterns, because CoreDNS has no other way: a template that matches
//! always answers, and one that falls through goes on with the next template.

use super::{
    PORT,
    check::{Action, Base, Forward, Template},
    stock,
};
use crate::{
    compile::{self, Lasting},
    corefile::{self, Files, Problem},
    plugin::template::complement,
    sha512::sha512,
    wire::Name,
};
use net::Families;
use std::{
    collections::BTreeMap,
    fmt::Write,
    io,
    path::{Path, PathBuf},
};

/// What a Corefile is made of.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Servers, resolvers, cache, log.
    pub base: &'a Base,
    /// In the order of the resource.
    pub templates: &'a [Template],
    /// The domain of Services.
    pub domain: &'a Name,
    /// Families of the cluster.
    pub families: Families,
    /// Files with authorities, by ConfigMap; one that is not here is not there yet.
    pub bundles: &'a BTreeMap<String, String>,
}

/// A template's zones of one length: what one `template` line is made of.
struct Line<'a> {
    template: &'a Template,
    zones: Vec<&'a Name>,
    excluded: bool,
}

impl Parts<'_> {
    /// The whole file.
    #[must_use]
    pub fn text(&self) -> String {
        let templates: String = lines(self).iter().map(|line| self.template(line)).collect();
        let mut text = String::new();
        for server in &self.base.servers {
            let keys: Vec<String> = server.zones.iter().map(|zone| format!("{zone}:{PORT}")).collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "# {}\n{} {{", server.name, keys.join(" "));
            text.push_str("    prometheus :9153\n");
            text.push_str(&self.forward(&server.forward));
            text.push_str(&self.log());
            text.push_str("    bufsize 1232\n");
            text.push_str(&templates);
            text.push_str(&self.cache());
            text.push_str("}\n");
        }
        let _ = writeln!(text, ".:{PORT} {{\n    bufsize 1232");
        text.push_str(&self.log());
        text.push_str("    health {\n        lameduck 20s\n    }\n    ready\n");
        text.push_str(&templates);
        let _ = writeln!(text, "    kubernetes {} in-addr.arpa ip6.arpa {{", plain(self.domain));
        text.push_str(
            "        pods insecure\n        fallthrough in-addr.arpa ip6.arpa\n    }\n    prometheus :9153\n",
        );
        text.push_str(&self.forward(&self.base.resolvers));
        text.push_str(&self.cache());
        let _ = writeln!(text, "    reload\n}}\nhostname.bind:{PORT} {{\n    chaos\n}}");
        text
    }

    /// Template and zone wherever the cluster domain is left out of a filter.
    #[must_use]
    pub fn exclusions(&self) -> Vec<(String, String)> {
        let filters = lines(self).into_iter().filter(|line| line.excluded && line.template.action == Action::Empty);
        let named = |line: Line<'_>| {
            let zones: Vec<String> = line.zones.iter().map(|zone| plain(zone)).collect();
            (line.template.name.clone(), zones.join(", "))
        };
        filters.map(named).collect()
    }

    fn log(&self) -> String {
        format!("    errors\n    log . {{\n        class {}\n    }}\n", self.base.log)
    }

    fn cache(&self) -> String {
        format!("    cache {} {{\n        denial 9984 {}\n    }}\n", self.base.positive, self.base.negative)
    }

    fn forward(&self, forward: &Forward) -> String {
        let mut text = format!("    forward . {} {{\n", forward.upstreams.join(" "));
        if let Some(tls) = &forward.tls {
            let _ = writeln!(text, "        tls_servername {}", tls.server_name);
            let file = tls.bundle.as_ref().and_then(|bundle| self.bundles.get(bundle));
            let _ = writeln!(text, "        tls{}", file.map(|file| format!(" {file}")).unwrap_or_default());
        }
        let _ = writeln!(text, "        policy {}", forward.policy);
        text.push_str(if forward.tcp { "        force_tcp\n    }\n" } else { "    }\n" });
        text
    }

    fn template(&self, line: &Line<'_>) -> String {
        let zones: Vec<String> = line.zones.iter().map(|zone| plain(zone)).collect();
        let mut text = format!("    template IN AAAA {} {{\n", zones.join(" "));
        if line.excluded {
            let _ = writeln!(text, "        # every name but those of {}", plain(self.domain));
            for pattern in complement(self.domain) {
                let _ = writeln!(text, "        match \"{pattern}\"");
            }
        }
        match &line.template.action {
            Action::Answer(answer) => {
                let _ = writeln!(text, "        answer \"{}\"", answer.replace('"', "\\\""));
            }
            Action::Empty => {
                // Without it nobody would keep an empty answer (RFC 2308). The owner is written out where it is one.
                let owner = match line.zones.as_slice() {
                    [only] => only.to_string(),
                    _ => "{{ .Zone }}".to_owned(),
                };
                let (ttl, domain) = (self.base.negative, self.domain);
                let _ = writeln!(
                    text,
                    "        authority \"{owner} {ttl} IN SOA ns.dns.{domain} hostmaster.{domain} 1 7200 1800 86400 {ttl}\""
                );
            }
        }
        text.push_str("        rcode NOERROR\n");
        text.push_str(if line.excluded { "        fallthrough\n    }\n" } else { "    }\n" });
        text
    }
}

/// One line for each template and length of zone, in order.
fn lines<'a>(parts: &Parts<'a>) -> Vec<Line<'a>> {
    let mut entries: Vec<(&Template, &Name)> = Vec::new();
    for template in parts.templates {
        entries.extend(template.zones.iter().map(|zone| (template, zone)));
    }
    entries.sort_by_cached_key(|(template, zone)| {
        (std::cmp::Reverse(zone.label_count()), template.name.clone(), zone.to_string())
    });
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (template, zone) in entries {
        let excluded = parts.domain.is_within(zone)
            && match template.action {
                // Where there is no IPv6 to break, a filter may be as broad as it is written.
                Action::Empty => parts.families.is_dual(),
                Action::Answer(_) => true,
            };
        match lines.last_mut() {
            Some(last)
                if last.template.name == template.name
                    && last.excluded == excluded
                    && last.zones[0].label_count() == zone.label_count() =>
            {
                last.zones.push(zone);
            }
            _ => lines.push(Line { template, zones: vec![zone], excluded }),
        }
    }
    lines
}

/// A zone without its final dot, but for the root.
fn plain(zone: &Name) -> String {
    let text = zone.to_string();
    if zone.is_root() { text } else { text.trim_end_matches('.').to_owned() }
}

/// The hashes by which servers know a Corefile: ours, and a stock CoreDNS. Or what is wrong with the file, which only a
/// mistake in here can bring about. Files that a server reads are not looked at: they are on its machine.
pub fn hashes(text: &str) -> Result<[String; 2], Problem> {
    let file = corefile::parse("Corefile", text, &NoFiles)?;
    let mut here = file.clone();
    here.blocks.iter_mut().for_each(|block| block.directives.retain(|directive| directive.name.text != "forward"));
    compile::compile(&here, PathBuf::new(), PORT, &Lasting::default())?;
    Ok([sha512(&file.to_string()), sha512(&stock::json(&file))])
}

/// A rendered Corefile imports nothing and knows no environment.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, path: &Path) -> io::Result<String> {
        Err(io::Error::other(format!("{} is not to be read", path.display())))
    }

    fn matching(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn variable(&self, _: &str) -> String {
        String::new()
    }
}

#[cfg(test)]
mod tests;
