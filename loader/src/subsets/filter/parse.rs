//! Parser of filters.
//!
//! ```text
//!   any     := all ("or" all)*
//!   all     := not ("and" not)*
//!   not     := "not" not | "(" any ")" | compare
//!   compare := operand (sign operand)+ | column ["not"] "in" list | column "is" ["not"] ("null" | "none")
//!   list    := "(" literals ")" | "[" literals "]"
//! ```

use super::cell::Cell;
use super::expression::{Comparison, Expression, Literals, Operand};
use super::mistake::Mistake;
use super::tokens::{self, Placed, Token};

/// Deepest nesting of brackets and `not`.
const DEPTH_MAX: usize = 100;

/// Most columns.
const COLUMNS_MAX: usize = 1000;

/// Words with a meaning, in small letters or capitals.
const KEYWORDS: [&str; 8] = ["and", "or", "not", "in", "is", "null", "true", "false"];

/// Parses a condition, and adds the names of its columns to `columns`.
pub(super) fn expression(text: &str, columns: &mut Vec<(String, usize)>) -> Result<Expression, Mistake> {
    let tokens = tokens::of(text)?;
    if tokens.is_empty() {
        return Err(Mistake { at: text.len(), problem: "a condition such as `class < 100` is missing".to_owned() });
    }
    let mut parser = Parser { tokens: &tokens, next: 0, end: text.len(), depth: 0, columns };
    let expression = parser.any()?;
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(parser.mistake("the condition ends here: connect conditions with `and` or `or`")),
    }
}

struct Parser<'a> {
    tokens: &'a [Placed],
    next: usize,
    /// Length of the text.
    end: usize,
    depth: usize,
    columns: &'a mut Vec<(String, usize)>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    /// Position of the next token.
    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(at, _)| *at)
    }

    fn mistake(&self, problem: &str) -> Mistake {
        Mistake { at: self.at(), problem: problem.to_owned() }
    }

    fn take(&mut self, token: &Token) -> bool {
        let is_next = self.peek() == Some(token);
        self.next += usize::from(is_next);
        is_next
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Name(name)) if name.eq_ignore_ascii_case(word));
        self.next += usize::from(is_next);
        is_next
    }

    fn take_sign(&mut self, sign: &'static str) -> Result<(), Mistake> {
        if self.take(&Token::Sign(sign)) { Ok(()) } else { Err(self.mistake(&format!("`{sign}` is missing"))) }
    }

    fn any(&mut self) -> Result<Expression, Mistake> {
        let mut parts = vec![self.all()?];
        while self.take_word("or") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Any(parts) })
    }

    fn all(&mut self) -> Result<Expression, Mistake> {
        let mut parts = vec![self.not()?];
        while self.take_word("and") {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::All(parts) })
    }

    fn not(&mut self) -> Result<Expression, Mistake> {
        if self.depth == DEPTH_MAX {
            return Err(self.mistake("brackets and `not` are nested deeper than 100"));
        }
        self.depth += 1;
        let parsed = if self.take_word("not") {
            Ok(Expression::Not(Box::new(self.not()?)))
        } else if self.take(&Token::Sign("(")) {
            let inner = self.any()?;
            self.take_sign(")").map(|()| inner)
        } else {
            self.compare()
        };
        self.depth -= 1;
        parsed
    }

    fn compare(&mut self) -> Result<Expression, Mistake> {
        let at = self.at();
        let mut left = self.operand()?;
        if let Operand::Column(column) = left {
            if self.take_word("is") {
                let is_negated = self.take_word("not");
                if !self.take_word("null") && !self.take_word("none") {
                    return Err(self.mistake("`null` is missing: write `is null` or `is not null`"));
                }
                return Ok(negated(is_negated, Expression::IsNull(column)));
            }
            let is_negated = self.take_word("not");
            if self.take_word("in") {
                return Ok(negated(is_negated, Expression::In { at, column, list: Literals::new(self.list()?) }));
            }
            if is_negated {
                return Err(self.mistake("`in` is missing"));
            }
        }
        let mut parts = Vec::new();
        while let Some(Token::Sign(sign)) = self.peek()
            && let Some(by) = Comparison::of(sign)
        {
            self.next += 1;
            let right = self.operand()?;
            if matches!((&left, &right), (Operand::Literal(_), Operand::Literal(_))) {
                let problem = "a comparison has a column on one side: text is in quotes, and names are not";
                return Err(Mistake { at, problem: problem.to_owned() });
            }
            parts.push(Expression::Compare { at, left, by, right: right.clone() });
            left = right;
        }
        match parts.len() {
            0 if self.peek() == Some(&Token::Sign("[")) => {
                Err(self.mistake("a path with brackets is a name in backticks, such as `` `boxes[0]` ``"))
            }
            0 => Err(self.mistake("a comparison such as `<` or `in` is missing")),
            1 => Ok(parts.remove(0)),
            _ => Ok(Expression::All(parts)),
        }
    }

    fn operand(&mut self) -> Result<Operand, Mistake> {
        let at = self.at();
        let name = match self.peek() {
            Some(Token::Quoted(name)) => name.clone(),
            Some(Token::Name(name)) if !is_keyword(name) => name.clone(),
            Some(Token::Name(name)) if name.eq_ignore_ascii_case("null") => {
                return Err(self.mistake("nothing is equal to an absent value: write `is null` or `is not null`"));
            }
            _ => {
                let literal = self.literal();
                return literal
                    .map(Operand::Literal)
                    .ok_or_else(|| self.mistake("a column, a number or a text is missing"));
            }
        };
        let known = self.columns.iter().position(|(column, _)| *column == name);
        if known.is_none() && self.columns.len() == COLUMNS_MAX {
            return Err(self.mistake("a filter has at most 1,000 columns"));
        }
        self.next += 1;
        Ok(Operand::Column(known.unwrap_or_else(|| {
            self.columns.push((name, at));
            self.columns.len() - 1
        })))
    }

    fn literal(&mut self) -> Option<Cell<'static>> {
        let literal = match self.peek()? {
            Token::Int(int) => Cell::Int(*int),
            Token::Float(float) => Cell::Float(*float),
            Token::Text(text) => Cell::Text(text.clone().into()),
            // A truth value is stored as a number.
            Token::Name(name) if name.eq_ignore_ascii_case("true") => Cell::Int(1),
            Token::Name(name) if name.eq_ignore_ascii_case("false") => Cell::Int(0),
            _ => return None,
        };
        self.next += 1;
        Some(literal)
    }

    fn list(&mut self) -> Result<Vec<Cell<'static>>, Mistake> {
        // Python's lists, and SQL's.
        let end = if self.take(&Token::Sign("(")) {
            ")"
        } else if self.take(&Token::Sign("[")) {
            "]"
        } else {
            return Err(self.mistake("`(` is missing: `in` has a list, such as `in (1, 2)`"));
        };
        let mut list = Vec::new();
        while !self.take(&Token::Sign(end)) {
            if !list.is_empty() && !self.take(&Token::Sign(",")) {
                return Err(self.mistake(&format!("`,` or `{end}` is missing")));
            }
            list.push(self.literal().ok_or_else(|| self.mistake("a number or a text is missing"))?);
        }
        Ok(list)
    }
}

fn is_keyword(name: &str) -> bool {
    KEYWORDS.iter().any(|keyword| name.eq_ignore_ascii_case(keyword))
}

fn negated(is_negated: bool, expression: Expression) -> Expression {
    if is_negated { Expression::Not(Box::new(expression)) } else { expression }
}
