//! `view`: a block for those questions alone for which its expressions hold.

use super::{only, template::Condition};
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
};

/// Whom a block is for.
pub struct View {
    /// For metrics.
    pub name: String,
    condition: Condition,
}

impl View {
    /// Whether all expressions hold; one without a value does not.
    #[must_use]
    pub fn holds(&self, query: &Query) -> bool {
        self.condition.holds(query)
    }
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    let name = line.one()?.text.clone();
    let mut condition = Condition::default();
    for line in line.lines() {
        match line.name.text.as_str() {
            "expr" => condition.add(line)?,
            _ => return Err(line.unknown(&["expr"])),
        }
    }
    building.observers.set_view(&name);
    building.view = Some(View { name, condition });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Asked, refused};

    #[test]
    fn the_first_block_that_fits_answers_and_the_next_zone_when_none_does() {
        let block = |zone: &str, view: &str, text: &str| {
            format!("{zone} {{\n {view}\n template ANY ANY {{\n answer \"{{{{ .Name }}}} 0 IN TXT {text}\"\n }}\n}}\n")
        };
        let inside = "view inside {\n expr incidr(client_ip(), '192.0.2.0/24')\n }";
        let six = "view six {\n expr incidr(client_ip(), '2001:db8::/32')\n expr type() == 'A'\n }";
        let text = [block("a.test", inside, "inside"), block("a.test", six, "six"), block("test", "", "everybody")];
        let asked = Asked::new(&text.concat());
        for (client, sort, expected) in [
            ("192.0.2.7:1", "A", "inside"),
            ("[2001:db8::7]:1", "A", "six"),
            ("[2001:db8::7]:1", "AAAA", "everybody"),
            ("198.51.100.1:1", "A", "everybody"),
        ] {
            let answer = asked.ask_from(client, "x.a.test.", sort);
            assert_eq!(answer, format!("NOERROR aa | x.a.test. 0 IN TXT \"{expected}\""), "{client} {sort}");
        }
        assert!(refused(". {\n view\n}").contains("needs one argument, has 0"));
        assert!(refused(". {\n view a {\n expr 1 +\n }\n}").contains("of the expression"));
        // Two blocks for everybody are one too many, whatever stands between them.
        let text = [block("a.test", "", "one"), block("a.test", inside, "two"), block("a.test", "", "three")];
        assert!(refused(&text.concat()).contains("already served by another block"));
    }
}
