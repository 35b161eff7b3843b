//! Answers of query APIs, read into a small tree.

use quick_xml::{Reader, events::Event};

/// Deeper is no answer of AWS.
const DEEPEST: usize = 64;

/// An element: its name without a prefix, its text, its children. Attributes carry nothing in these APIs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: String,
    text: String,
    children: Vec<Self>,
}

/// Whether this is XML of an answer; for fuzzing, which has no client.
#[doc(hidden)]
pub fn is_answer(text: &str) -> bool {
    Element::parse(text).is_some()
}

impl Element {
    /// The root element; `None` when it is no XML.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader::from_str(text);
        let mut open: Vec<Self> = vec![Self::default()];
        loop {
            match reader.read_event().ok()? {
                Event::Start(start) => {
                    let name = start.local_name().into_inner().to_owned();
                    open.push(Self { name, ..Self::default() });
                    if open.len() > DEEPEST {
                        return None;
                    }
                }
                Event::Empty(start) => {
                    let name = start.local_name().into_inner().to_owned();
                    open.last_mut()?.children.push(Self { name, ..Self::default() });
                }
                Event::End(_) => {
                    let mut done = open.pop()?;
                    done.text = done.text.trim().to_owned();
                    open.last_mut()?.children.push(done);
                }
                Event::Text(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
                Event::CData(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
                Event::GeneralRef(reference) => {
                    let character = match reference.resolve_char_ref().ok()? {
                        Some(character) => character.to_string(),
                        None => quick_xml::escape::resolve_predefined_entity(&reference.xml10_content())?.to_owned(),
                    };
                    open.last_mut()?.text.push_str(&character);
                }
                Event::Eof => break,
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
        match open.as_mut_slice() {
            [document] if document.children.len() == 1 => document.children.pop(),
            _ => None,
        }
    }

    /// The first child of this name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The first child of this name, taken out.
    pub(super) fn into_child(self, name: &str) -> Option<Self> {
        self.children.into_iter().find(|child| child.name == name)
    }

    /// Without its children of this name.
    pub(super) fn without(mut self, name: &str) -> Self {
        self.children.retain(|child| child.name != name);
        self
    }

    /// As XML.
    pub(super) fn write(&self) -> String {
        let inner: String = self.children.iter().map(Self::write).collect();
        format!("<{0}>{1}{inner}</{0}>", self.name, quick_xml::escape::escape(&self.text))
    }

    /// The text at the end of a path of names; empty when there is none.
    pub(super) fn text(&self, path: &[&str]) -> &str {
        let end = path.iter().try_fold(self, |element, name| element.child(name));
        end.map_or("", |element| &element.text)
    }

    /// The text of a child, if there is any.
    pub(super) fn some(&self, name: &str) -> Option<String> {
        Some(self.text(&[name]).to_owned()).filter(|text| !text.is_empty())
    }

    /// A child's text as a number, or whatever else it should be.
    pub(super) fn parsed<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(&[name]).parse().ok()
    }

    /// The texts of the members of a list.
    pub(super) fn texts<C: FromIterator<String>>(&self, list: &str) -> C {
        self.items(list).map(|item| item.text.clone()).collect()
    }

    /// The members of a list.
    pub(super) fn items(&self, list: &str) -> impl Iterator<Item = &Self> {
        let members = self.child(list).into_iter().flat_map(|list| &list.children);
        members.filter(|child| child.name == "item" || child.name == "member")
    }

    /// All children of this name.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &Self> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(<[a-c]+>|</[a-c]+>|<[a-c]/>|&[a-z#0-9]{0,4};?|<!--|-->|[ -~\\n])*") {
            let _ = Element::parse(&text);
        }
    }

    #[test]
    fn an_answer_is_read() {
        let text = "<?xml version=\"1.0\"?>\n<a:Root xmlns:a=\"http://x/\">\n <set><item><id>1 &lt;&#x41;&amp;</id></item><item/>\n</set><empty/></a:Root>";
        let root = Element::parse(text).expect("XML");
        assert_eq!(root.name, "Root");
        let ids: Vec<&str> = root.items("set").map(|item| item.text(&["id"])).collect();
        assert_eq!(ids, ["1 <A&", ""]);
        assert_eq!(root.some("empty"), None);
        assert_eq!(root.text(&["set", "item", "id"]), "1 <A&");
        assert_eq!(root.items("nothing").count(), 0);
        assert_eq!(
            root.write(),
            "<Root><set><item><id>1 &lt;A&amp;</id></item><item></item></set><empty></empty></Root>"
        );
    }

    #[test]
    fn what_is_no_xml_is_none() {
        let deep = "<a>".repeat(100) + &"</a>".repeat(100);
        for text in ["", "Not Found", "{\"a\": 1}", "<a>", "<a></b>", "<a/><b/>", "<a>&nonsense;</a>", deep.as_str()] {
            assert_eq!(Element::parse(text), None, "{text}");
        }
    }
}
