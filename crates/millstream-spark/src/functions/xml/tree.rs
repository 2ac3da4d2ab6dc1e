//! An XML document as a tree.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// A well-formed document. Nodes are numbered in the order of the text; 0 is the document itself.
#[derive(Debug)]
pub(super) struct Document {
    nodes: Vec<Node>,
}

/// The number of a node.
pub(super) type NodeId = usize;

/// What is in a document.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) parent: Option<NodeId>,
    /// Elements, texts, comments and instructions below it.
    pub(super) children: Vec<NodeId>,
    /// An element's attributes.
    pub(super) attributes: Vec<NodeId>,
}

/// The kinds of nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// The document.
    Root,
    /// An element of a name.
    Element(String),
    /// An attribute's name and value.
    Attribute(String, String),
    /// Text, entities and CDATA sections included.
    Text(String),
    /// A comment.
    Comment(String),
    /// A processing instruction's target and content.
    Instruction(String, String),
}

/// What is wrong with a text that is no document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NotXml(pub(super) String);

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// [`NotXml`] when the text is not well-formed.
    pub(super) fn parse(text: &str) -> Result<Document, NotXml> {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        (config.expand_empty_elements, config.check_comments) = (true, true);
        let mut document = Document { nodes: vec![Node::new(Kind::Root, None)] };
        let mut open: NodeId = 0;
        loop {
            match reader.read_event().map_err(|error| NotXml(error.to_string()))? {
                Event::Start(start) => {
                    if open == 0 && document.root_element().is_some() {
                        return Err(NotXml("there is more than one element at the top".to_owned()));
                    }
                    open = document.start(&start, open)?;
                }
                Event::End(_) => open = document.get(open).and_then(|node| node.parent).unwrap_or(0),
                Event::Text(text) => document.text(open, &text.xml_content().map_err(|error| NotXml(error.to_string()))?)?,
                Event::CData(text) => document.text(open, &text.xml_content().map_err(|error| NotXml(error.to_string()))?)?,
                Event::GeneralRef(reference) => {
                    let text = match reference.resolve_char_ref().map_err(|error| NotXml(error.to_string()))? {
                        Some(character) => character.to_string(),
                        None => entity(&String::from_utf8_lossy(&reference))?.to_owned(),
                    };
                    document.text(open, &text)?;
                }
                Event::Comment(comment) => {
                    let text = comment.xml_content().map_err(|error| NotXml(error.to_string()))?.into_owned();
                    document.add(Kind::Comment(text), open);
                }
                Event::PI(instruction) => {
                    let target = String::from_utf8_lossy(instruction.target()).into_owned();
                    let content = String::from_utf8_lossy(instruction.content()).trim_start().to_owned();
                    document.add(Kind::Instruction(target, content), open);
                }
                Event::Decl(_) | Event::DocType(_) | Event::Empty(_) => {}
                Event::Eof => break,
            }
        }
        if open != 0 {
            return Err(NotXml(format!("the element '{}' is not closed", document.name(open))));
        }
        match document.root_element() {
            Some(_) => Ok(document),
            None => Err(NotXml("there is no element".to_owned())),
        }
    }

    /// A node.
    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The element at the top.
    pub(super) fn root_element(&self) -> Option<NodeId> {
        self.elements(0).next()
    }

    /// The nodes below a node.
    pub(super) fn children(&self, id: NodeId) -> &[NodeId] {
        self.get(id).map_or(&[], |node| &node.children)
    }

    /// The elements directly below a node.
    pub(super) fn elements(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.children(id).iter().copied().filter(|child| self.get(*child).is_some_and(|node| matches!(node.kind, Kind::Element(_))))
    }

    /// The attributes of an element, as names and values.
    pub(super) fn attributes(&self, id: NodeId) -> impl Iterator<Item = (&str, &str)> {
        let attributes = self.get(id).map_or(&[] as &[NodeId], |node| &node.attributes);
        attributes.iter().filter_map(|id| match &self.get(*id)?.kind {
            Kind::Attribute(name, value) => Some((name.as_str(), value.as_str())),
            _ => None,
        })
    }

    /// The name of an element, attribute or instruction; nothing otherwise.
    pub(super) fn name(&self, id: NodeId) -> &str {
        match self.get(id).map(|node| &node.kind) {
            Some(Kind::Element(name) | Kind::Attribute(name, _) | Kind::Instruction(name, _)) => name,
            _ => "",
        }
    }

    /// The text of a node: an element's is that of everything in it.
    pub(super) fn text_of(&self, id: NodeId) -> String {
        let mut out = String::new();
        self.collect_text(id, &mut out);
        out
    }

    fn collect_text(&self, id: NodeId, out: &mut String) {
        let Some(node) = self.get(id) else { return };
        match &node.kind {
            Kind::Text(text) => out.push_str(text),
            Kind::Attribute(_, text) | Kind::Comment(text) | Kind::Instruction(_, text) => out.push_str(text),
            Kind::Root | Kind::Element(_) => {
                let inside = |child: &&NodeId| self.get(**child).is_some_and(|node| matches!(node.kind, Kind::Text(_) | Kind::Element(_)));
                node.children.iter().filter(inside).for_each(|child| self.collect_text(*child, out));
            }
        }
    }

    fn add(&mut self, kind: Kind, parent: NodeId) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node::new(kind, Some(parent)));
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.children.push(id);
        }
        id
    }

    fn start(&mut self, start: &BytesStart<'_>, parent: NodeId) -> Result<NodeId, NotXml> {
        let id = self.add(Kind::Element(String::from_utf8_lossy(start.name().as_ref()).into_owned()), parent);
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| NotXml(error.to_string()))?;
            let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
            let raw = String::from_utf8_lossy(&attribute.value).into_owned();
            if raw.contains('<') {
                return Err(NotXml(format!("the value of the attribute '{name}' contains '<'")));
            }
            let value = unescaped(&raw)?;
            let place = self.nodes.len();
            self.nodes.push(Node::new(Kind::Attribute(name, value), Some(id)));
            if let Some(element) = self.nodes.get_mut(id) {
                element.attributes.push(place);
            }
        }
        Ok(id)
    }

    /// Adds text, to the text before it if there is one.
    fn text(&mut self, open: NodeId, text: &str) -> Result<(), NotXml> {
        if open == 0 {
            return if text.trim().is_empty() { Ok(()) } else { Err(NotXml("there is text outside of the element at the top".to_owned())) };
        }
        if text.is_empty() {
            return Ok(());
        }
        let last = self.children(open).last().copied();
        if let Some(Node { kind: Kind::Text(before), .. }) = last.and_then(|last| self.nodes.get_mut(last)) {
            before.push_str(text);
        } else {
            self.add(Kind::Text(text.to_owned()), open);
        }
        Ok(())
    }
}

impl Node {
    fn new(kind: Kind, parent: Option<NodeId>) -> Self {
        Node { kind, parent, children: Vec::new(), attributes: Vec::new() }
    }
}

/// The text of a predefined entity.
fn entity(name: &str) -> Result<&'static str, NotXml> {
    Ok(match name {
        "lt" => "<",
        "gt" => ">",
        "amp" => "&",
        "apos" => "'",
        "quot" => "\"",
        _ => return Err(NotXml(format!("the entity '{name}' is not known"))),
    })
}

/// An attribute's value: white space is normalised, references are resolved.
fn unescaped(raw: &str) -> Result<String, NotXml> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once('&') {
        out.extend(before.chars().map(|character| if character.is_ascii_whitespace() { ' ' } else { character }));
        let (name, behind) = after.split_once(';').ok_or_else(|| NotXml("an entity is not closed".to_owned()))?;
        match name.strip_prefix('#') {
            Some(number) => {
                let code = match number.strip_prefix('x') {
                    Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok(),
                    None => number.parse().ok(),
                };
                out.push(code.and_then(char::from_u32).ok_or_else(|| NotXml(format!("'&{name};' is no character")))?);
            }
            None => out.push_str(entity(name)?),
        }
        rest = behind;
    }
    out.extend(rest.chars().map(|character| if character.is_ascii_whitespace() { ' ' } else { character }));
    Ok(out)
}
