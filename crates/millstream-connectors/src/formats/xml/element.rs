//! One record as a tree: elements with their attributes, and the text between them.

use std::borrow::Cow;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

/// The deepest nesting of elements.
const DEEPEST: usize = 1000;

/// An element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    /// With its prefix, as it is written.
    pub(super) name: String,
    /// Names and values in their order.
    pub(super) attributes: Vec<(String, String)>,
    /// What is inside.
    pub(super) children: Vec<Node>,
}

/// Something inside an element. Comments and instructions are left out; text on their two sides stays apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// An element.
    Element(Element),
    /// Text with its references resolved.
    Text(String),
}

impl Node {
    /// Whether it is text of nothing but white space.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self, Node::Text(text) if is_blank(text))
    }
}

/// Whether a text has nothing but white space.
pub(super) fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

impl Element {
    /// Parses a record: one element and nothing else.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader::from_str(text);
        reader.config_mut().check_comments = true;
        let mut open: Vec<Element> = Vec::new();
        let mut pending = Text::default();
        loop {
            let at = reader.buffer_position();
            let event = reader.read_event().map_err(|error| format!("{error} at byte {}", reader.error_position()))?;
            match event {
                Event::Text(text) => pending.push(&text.xml10_content().map_err(|error| error.to_string())?),
                Event::CData(text) => pending.push(&text.xml10_content().map_err(|error| error.to_string())?),
                Event::GeneralRef(reference) => {
                    let name = reference.decode().map_err(|error| error.to_string())?;
                    match reference.resolve_char_ref().map_err(|error| format!("{error} at byte {at}"))? {
                        Some(character) => pending.push(character.encode_utf8(&mut [0; 4])),
                        None => pending.push(
                            resolve_predefined_entity(&name).ok_or_else(|| format!("the entity '&{name};' at byte {at} is not defined"))?,
                        ),
                    }
                }
                Event::Comment(_) | Event::PI(_) | Event::Decl(_) | Event::DocType(_) => pending.end(&mut open),
                Event::Start(start) => {
                    pending.end(&mut open);
                    if open.len() >= DEEPEST {
                        return Err(format!("elements are nested deeper than {DEEPEST}"));
                    }
                    open.push(element(&start)?);
                }
                Event::Empty(start) => {
                    pending.end(&mut open);
                    let element = element(&start)?;
                    match open.last_mut() {
                        Some(parent) => parent.children.push(Node::Element(element)),
                        None => return Ok(element),
                    }
                }
                Event::End(_) => {
                    pending.end(&mut open);
                    let Some(element) = open.pop() else { return Err(format!("an element ends at byte {at} that did not begin")) };
                    match open.last_mut() {
                        Some(parent) => parent.children.push(Node::Element(element)),
                        None => return Ok(element),
                    }
                }
                Event::Eof => return Err("it ends before its last element does".to_owned()),
            }
        }
    }

    /// The element's inside as it would be written.
    pub(super) fn inner_text(&self) -> String {
        let mut out = String::new();
        self.children.iter().for_each(|child| append(child, &mut out));
        out
    }

    /// The elements inside.
    pub(super) fn elements(&self) -> impl Iterator<Item = &Element> {
        self.children.iter().filter_map(|child| if let Node::Element(element) = child { Some(element) } else { None })
    }
}

/// Text that may go on.
#[derive(Default)]
struct Text(Option<String>);

impl Text {
    fn push(&mut self, text: &str) {
        self.0.get_or_insert_default().push_str(text);
    }

    /// Nothing is appended to it any more.
    fn end(&mut self, open: &mut [Element]) {
        if let (Some(text), Some(parent)) = (self.0.take(), open.last_mut()) {
            parent.children.push(Node::Text(text));
        }
    }
}

fn element(start: &BytesStart<'_>) -> Result<Element, String> {
    let name = text_of(start.name().as_ref())?;
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| format!("{error} in the element '{name}'"))?;
        let value = attribute.unescape_value().map_err(|error| format!("{error} in the element '{name}'"))?;
        attributes.push((text_of(attribute.key.as_ref())?, value.into_owned()));
    }
    Ok(Element { name, attributes, children: Vec::new() })
}

fn text_of(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|error| error.to_string())
}

fn append(node: &Node, out: &mut String) {
    match node {
        Node::Text(text) => out.push_str(text),
        Node::Element(element) => {
            out.push('<');
            out.push_str(&element.name);
            for (name, value) in &element.attributes {
                out.push(' ');
                out.push_str(name);
                out.push_str("=\"");
                out.push_str(&quick_xml::escape::escape(value.as_str()));
                out.push('"');
            }
            out.push('>');
            element.children.iter().for_each(|child| append(child, out));
            out.push_str("</");
            out.push_str(&element.name);
            out.push('>');
        }
    }
}

/// The part of a name that counts.
pub(super) fn name_of(name: &str, ignore_namespace: bool) -> Cow<'_, str> {
    match name.rsplit_once(':') {
        Some((_, local)) if ignore_namespace => local.into(),
        _ => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_tree() {
        let text = "<r a='1' b:c=\"x &lt; y\"><k>t<!-- no -->u</k><![CDATA[<&>]]>&amp;&#65;&#x42;<e/></r>";
        let element = Element::parse(text).unwrap();
        assert_eq!(element.attributes, [("a".to_owned(), "1".to_owned()), ("b:c".to_owned(), "x < y".to_owned())]);
        let texts: Vec<String> = element.children.iter().map(|child| format!("{child:?}")).collect();
        assert_eq!(texts.len(), 3);
        assert_eq!(element.children[1], Node::Text("<&>&AB".to_owned()));
        assert_eq!(element.elements().next().unwrap().children, [Node::Text("t".to_owned()), Node::Text("u".to_owned())]);
        assert_eq!(element.inner_text(), "<k>tu</k><&>&AB<e></e>");
    }

    #[test]
    fn what_is_no_xml_is_refused() {
        for text in ["<r><k></r>", "<r>", "<r>&unknown;</r>", "<r a=1/>", "<r a='1' a='2'/>", "</r>", ""] {
            assert!(Element::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let text = format!("{}{}", "<r>".repeat(5_000), "</r>".repeat(5_000));
        assert!(Element::parse(&text).is_err());
    }
}
