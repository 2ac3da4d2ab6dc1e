//! The syntax of XPath 1.0.

use super::Fault;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Or(Box<Expression>, Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Compare(Comparison, Box<Expression>, Box<Expression>),
    Calculate(Operator, Box<Expression>, Box<Expression>),
    Negate(Box<Expression>),
    Union(Box<Expression>, Box<Expression>),
    Path(Path),
    /// An expression whose nodes are filtered and walked on from.
    Filter(Box<Expression>, Vec<Expression>, Vec<Step>),
    Text(String),
    Number(f64),
    Call(String, Vec<Expression>),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What is calculated of two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A location path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    /// It starts at the document.
    pub(super) absolute: bool,
    pub(super) steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) axis: Axis,
    pub(super) test: Test,
    pub(super) predicates: Vec<Expression>,
}

/// Where a step leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Axis {
    Ancestor,
    AncestorOrSelf,
    Attribute,
    Child,
    Descendant,
    DescendantOrSelf,
    Following,
    FollowingSibling,
    Namespace,
    Parent,
    Preceding,
    PrecedingSibling,
    Itself,
}

const AXES: [(&str, Axis); 13] = [
    ("ancestor", Axis::Ancestor),
    ("ancestor-or-self", Axis::AncestorOrSelf),
    ("attribute", Axis::Attribute),
    ("child", Axis::Child),
    ("descendant", Axis::Descendant),
    ("descendant-or-self", Axis::DescendantOrSelf),
    ("following", Axis::Following),
    ("following-sibling", Axis::FollowingSibling),
    ("namespace", Axis::Namespace),
    ("parent", Axis::Parent),
    ("preceding", Axis::Preceding),
    ("preceding-sibling", Axis::PrecedingSibling),
    ("self", Axis::Itself),
];

/// Which nodes of an axis a step takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// Elements, or attributes on their axis, whatever their name.
    Any,
    /// Those whose name begins with a prefix and a colon.
    Prefix(String),
    Name(String),
    /// `node()`.
    Node,
    Text,
    Comment,
    /// `processing-instruction()`, perhaps of a target.
    Instruction(Option<String>),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Number(f64),
    /// Punctuation and operators, the named ones too where an operator is due.
    Mark(&'static str),
}

const MARKS: [&str; 22] =
    ["::", "//", "..", "<=", ">=", "!=", "(", ")", "[", "]", ".", "@", ",", "/", "|", "+", "-", "=", "<", ">", "*", "$"];

fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let token;
        let digits = |text: &str| text.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
        if first == '"' || first == '\'' {
            let inside = rest.get(1..).unwrap_or_default();
            let (literal, behind) = inside.split_once(first).ok_or_else(|| Fault::syntax("a string is not closed"))?;
            token = Token::Text(literal.to_owned());
            rest = behind;
        } else if digits(rest) || first == '.' && rest.get(1..).is_some_and(digits) {
            let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
            let (number, behind) = rest.split_at(end);
            token = Token::Number(number.parse().map_err(|_| Fault::syntax(format!("'{number}' is no number")))?);
            rest = behind;
        } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            token = Token::Mark(mark);
            rest = rest.get(mark.len()..).unwrap_or_default();
        } else {
            let of_name = |character: char| character.is_alphanumeric() || "_-.:".contains(character);
            let mut end = rest.find(|character| !of_name(character)).unwrap_or(rest.len());
            // An axis ends in two colons; a prefix in one, behind which there may be a star.
            if let Some(axis) = rest.get(..end).and_then(|name| name.find("::")) {
                end = axis;
            }
            let (name, behind) = rest.split_at(end);
            if name.is_empty() || !name.starts_with(|character: char| character.is_alphabetic() || character == '_') {
                return Err(Fault::syntax(format!("'{first}' is not expected")));
            }
            let operator = ["and", "or", "div", "mod"].into_iter().find(|operator| *operator == name);
            token = match operator {
                Some(operator) if ends_operand(tokens.last()) => Token::Mark(operator),
                _ => Token::Name(name.to_owned()),
            };
            rest = behind;
        }
        tokens.push(token);
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// Whether an operator may follow.
fn ends_operand(token: Option<&Token>) -> bool {
    match token {
        Some(Token::Mark(mark)) => matches!(*mark, ")" | "]" | "." | ".." | "*"),
        Some(_) => true,
        None => false,
    }
}

/// Parses an expression.
///
/// # Errors
/// When the text is none.
pub(super) fn parse(text: &str) -> Result<Expression, Fault> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, depth: 0 };
    let expression = parser.or()?;
    match parser.tokens.first() {
        None => Ok(expression),
        Some(token) => Err(Fault::syntax(format!("{token:?} is not expected"))),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self, place: usize) -> Option<&Token> {
        self.tokens.get(place)
    }

    fn next(&mut self) -> Option<&Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let there = matches!(self.peek(0), Some(Token::Mark(found)) if *found == mark);
        if there {
            self.next();
        }
        there
    }

    fn expect(&mut self, mark: &str) -> Result<(), Fault> {
        if self.eat(mark) { Ok(()) } else { Err(Fault::syntax(format!("'{mark}' is missing"))) }
    }

    fn or(&mut self) -> Result<Expression, Fault> {
        self.depth += 1;
        if self.depth > 200 {
            return Err(Fault::syntax("it is nested too deeply"));
        }
        let mut left = self.and()?;
        while self.eat("or") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, Fault> {
        let mut left = self.equality()?;
        while self.eat("and") {
            left = Expression::And(Box::new(left), Box::new(self.equality()?));
        }
        Ok(left)
    }

    fn equality(&mut self) -> Result<Expression, Fault> {
        let mut left = self.relation()?;
        loop {
            let how = match self.peek(0) {
                Some(Token::Mark("=")) => Comparison::Equal,
                Some(Token::Mark("!=")) => Comparison::NotEqual,
                _ => return Ok(left),
            };
            self.next();
            left = Expression::Compare(how, Box::new(left), Box::new(self.relation()?));
        }
    }

    fn relation(&mut self) -> Result<Expression, Fault> {
        let mut left = self.sum()?;
        loop {
            let how = match self.peek(0) {
                Some(Token::Mark("<")) => Comparison::Less,
                Some(Token::Mark("<=")) => Comparison::LessOrEqual,
                Some(Token::Mark(">")) => Comparison::Greater,
                Some(Token::Mark(">=")) => Comparison::GreaterOrEqual,
                _ => return Ok(left),
            };
            self.next();
            left = Expression::Compare(how, Box::new(left), Box::new(self.sum()?));
        }
    }

    fn sum(&mut self) -> Result<Expression, Fault> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek(0) {
                Some(Token::Mark("+")) => Operator::Add,
                Some(Token::Mark("-")) => Operator::Subtract,
                _ => return Ok(left),
            };
            self.next();
            left = Expression::Calculate(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expression, Fault> {
        let mut left = self.unary()?;
        loop {
            let operator = match self.peek(0) {
                Some(Token::Mark("*")) => Operator::Multiply,
                Some(Token::Mark("div")) => Operator::Divide,
                Some(Token::Mark("mod")) => Operator::Remainder,
                _ => return Ok(left),
            };
            self.next();
            left = Expression::Calculate(operator, Box::new(left), Box::new(self.unary()?));
        }
    }

    fn unary(&mut self) -> Result<Expression, Fault> {
        let mut negative = false;
        while self.eat("-") {
            negative = !negative;
        }
        let mut left = self.path_expression()?;
        while self.eat("|") {
            left = Expression::Union(Box::new(left), Box::new(self.path_expression()?));
        }
        Ok(if negative { Expression::Negate(Box::new(left)) } else { left })
    }

    fn path_expression(&mut self) -> Result<Expression, Fault> {
        let primary = match (self.peek(0), self.peek(1)) {
            (Some(Token::Text(text)), _) => Some(Expression::Text(text.clone())),
            (Some(Token::Number(number)), _) => Some(Expression::Number(*number)),
            (Some(Token::Mark("(")), _) => {
                self.next();
                let inside = self.or()?;
                self.expect(")")?;
                return self.filtered(inside);
            }
            (Some(Token::Name(name)), Some(Token::Mark("("))) if !is_node_type(name) => {
                let name = name.clone();
                self.next();
                self.next();
                let arguments = self.arguments()?;
                return self.filtered(Expression::Call(name, arguments));
            }
            (Some(Token::Mark("$")), _) => return Err(Fault::syntax("there are no variables")),
            _ => None,
        };
        match primary {
            Some(primary) => {
                self.next();
                self.filtered(primary)
            }
            None => Ok(Expression::Path(self.path()?)),
        }
    }

    fn arguments(&mut self) -> Result<Vec<Expression>, Fault> {
        let mut arguments = Vec::new();
        if self.eat(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.or()?);
            if !self.eat(",") {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    /// Predicates and steps behind an expression.
    fn filtered(&mut self, inside: Expression) -> Result<Expression, Fault> {
        let predicates = self.predicates()?;
        let mut steps = Vec::new();
        if matches!(self.peek(0), Some(Token::Mark("/" | "//"))) {
            self.steps(&mut steps)?;
        }
        Ok(if predicates.is_empty() && steps.is_empty() { inside } else { Expression::Filter(Box::new(inside), predicates, steps) })
    }

    fn path(&mut self) -> Result<Path, Fault> {
        let mut steps = Vec::new();
        match self.peek(0) {
            Some(Token::Mark("/")) => {
                self.next();
                if self.begins_step() {
                    steps.push(self.step()?);
                    self.steps(&mut steps)?;
                }
                Ok(Path { absolute: true, steps })
            }
            Some(Token::Mark("//")) => {
                self.steps(&mut steps)?;
                Ok(Path { absolute: true, steps })
            }
            _ => {
                steps.push(self.step()?);
                self.steps(&mut steps)?;
                Ok(Path { absolute: false, steps })
            }
        }
    }

    fn begins_step(&self) -> bool {
        matches!(self.peek(0), Some(Token::Name(_) | Token::Mark("." | ".." | "@" | "*")))
    }

    /// Steps, each behind a slash or two.
    fn steps(&mut self, steps: &mut Vec<Step>) -> Result<(), Fault> {
        loop {
            if self.eat("//") {
                steps.push(Step { axis: Axis::DescendantOrSelf, test: Test::Node, predicates: Vec::new() });
            } else if !self.eat("/") {
                return Ok(());
            }
            steps.push(self.step()?);
        }
    }

    fn step(&mut self) -> Result<Step, Fault> {
        if self.eat(".") {
            return Ok(Step { axis: Axis::Itself, test: Test::Node, predicates: Vec::new() });
        }
        if self.eat("..") {
            return Ok(Step { axis: Axis::Parent, test: Test::Node, predicates: Vec::new() });
        }
        let axis = match (self.peek(0), self.peek(1)) {
            (Some(Token::Mark("@")), _) => {
                self.next();
                Axis::Attribute
            }
            (Some(Token::Name(name)), Some(Token::Mark("::"))) => {
                let axis = AXES.iter().find(|(known, _)| known == name).map(|(_, axis)| *axis);
                let axis = axis.ok_or_else(|| Fault::syntax(format!("there is no axis '{name}'")))?;
                self.next();
                self.next();
                axis
            }
            _ => Axis::Child,
        };
        let test = self.test()?;
        Ok(Step { axis, test, predicates: self.predicates()? })
    }

    fn test(&mut self) -> Result<Test, Fault> {
        if self.eat("*") {
            return Ok(Test::Any);
        }
        let Some(Token::Name(name)) = self.next() else { return Err(Fault::syntax("a step is missing")) };
        let name = name.clone();
        if is_node_type(&name) && self.eat("(") {
            let test = match name.as_str() {
                "node" => Test::Node,
                "text" => Test::Text,
                "comment" => Test::Comment,
                _ => match self.peek(0) {
                    Some(Token::Text(target)) => {
                        let target = Some(target.clone());
                        self.next();
                        Test::Instruction(target)
                    }
                    _ => Test::Instruction(None),
                },
            };
            self.expect(")")?;
            return Ok(test);
        }
        if let Some(prefix) = name.strip_suffix(':') {
            self.expect("*")?;
            return Ok(Test::Prefix(prefix.to_owned()));
        }
        Ok(Test::Name(name))
    }

    fn predicates(&mut self) -> Result<Vec<Expression>, Fault> {
        let mut predicates = Vec::new();
        while self.eat("[") {
            predicates.push(self.or()?);
            self.expect("]")?;
        }
        Ok(predicates)
    }
}

fn is_node_type(name: &str) -> bool {
    matches!(name, "node" | "text" | "comment" | "processing-instruction")
}
