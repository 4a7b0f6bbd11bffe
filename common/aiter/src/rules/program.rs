//! Small functions of numbers, as aiter's C++ and Python have them, read and carried out: how a checkout rounds. A language of
//! assignments, conditions, a loop over a list and a result; what is beyond it is refused, never guessed.

use std::collections::HashMap;

/// What aiter calls a rounded number of rows.
pub(super) const RESULT: &str = "padded_m";
/// Steps that a call may take.
const STEPS: u32 = 10_000;
/// Expressions and blocks within each other.
const DEPTH: u32 = 64;

/// A function that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    body: Vec<Statement>,
    lists: HashMap<String, Vec<i64>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Statement {
    Let(String, Expression),
    If(Expression, Vec<Statement>, Vec<Statement>),
    /// Over a list, from its end if so.
    For(String, String, bool, Vec<Statement>),
    Return(Expression),
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Number(i64),
    Name(String),
    Item(String, Box<Expression>),
    Call(String, Vec<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// A condition, and what it is if so and if not.
    Choice(Box<[Expression; 3]>),
}

/// Operators, those that bind the least first.
const OPERATORS: [&[&str]; 6] =
    [&["||", "or"], &["&&", "and"], &["==", "!=", "<=", ">=", "<", ">"], &["<<"], &["+", "-"], &["*", "//", "/", "%"]];

impl Program {
    /// Reads statements with braces. `None`: they are beyond what is known.
    pub(super) fn parse(text: &str, lists: HashMap<String, Vec<i64>>) -> Option<Self> {
        let mut reader = Reader { words: words(text)?, place: 0, depth: 0 };
        let mut body = Vec::new();
        while reader.peek().is_some() {
            body.extend(reader.statement()?);
        }
        Some(Self { body, lists })
    }

    /// Whether it can be carried out: all that it names is known.
    pub(super) fn is_whole(&self) -> bool {
        let call = |m, level| self.call(&[("M", m), ("N", m), ("K", m), ("gl", level)], RESULT);
        [1, 17, 300, 5000, 40_000, 200_000].iter().all(|m| [0, 1].iter().all(|level| call(*m, *level).is_some()))
    }

    /// What it returns, or what `result` is at its end.
    pub(super) fn call(&self, arguments: &[(&str, i64)], result: &str) -> Option<i64> {
        let names = arguments.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
        let mut run = Run { names, lists: &self.lists, steps: 0 };
        let returned = run.block(&self.body)?;
        returned.or_else(|| run.names.get(result).copied())
    }
}

/// The next power of two, as each version of aiter has it.
fn next_power(number: i64) -> Option<i64> {
    if number <= 1 {
        return Some(1);
    }
    u64::try_from(number).ok()?.checked_next_power_of_two()?.try_into().ok()
}

/// A call that is under way.
struct Run<'a> {
    names: HashMap<String, i64>,
    lists: &'a HashMap<String, Vec<i64>>,
    steps: u32,
}

impl Run<'_> {
    /// `None`: it can not be carried out. `Some(None)`: it ended without a result.
    fn block(&mut self, block: &[Statement]) -> Option<Option<i64>> {
        for statement in block {
            self.steps += 1;
            if self.steps > STEPS {
                return None;
            }
            let returned = match statement {
                Statement::Let(name, value) => {
                    let value = self.value(value)?;
                    self.names.insert(name.clone(), value);
                    None
                }
                Statement::If(condition, then, otherwise) => {
                    let block = if self.value(condition)? != 0 { then } else { otherwise };
                    self.block(block)?
                }
                Statement::For(name, list, from_its_end, block) => self.each(name, list, *from_its_end, block)?,
                Statement::Return(value) => Some(self.value(value)?),
            };
            if returned.is_some() {
                return Some(returned);
            }
        }
        Some(None)
    }

    fn each(&mut self, name: &str, list: &str, from_its_end: bool, block: &[Statement]) -> Option<Option<i64>> {
        let mut items = self.lists.get(list)?.clone();
        if from_its_end {
            items.reverse();
        }
        for item in items {
            self.names.insert(name.to_string(), item);
            let returned = self.block(block)?;
            if returned.is_some() {
                return Some(returned);
            }
        }
        Some(None)
    }

    fn value(&self, expression: &Expression) -> Option<i64> {
        match expression {
            Expression::Number(number) => Some(*number),
            // A list of one is a number that stands beside the function.
            Expression::Name(name) => self
                .names
                .get(name)
                .or_else(|| match self.lists.get(name).map(Vec::as_slice) {
                    Some([number]) => Some(number),
                    _ => None,
                })
                .copied(),
            Expression::Item(list, place) => {
                self.lists.get(list)?.get(usize::try_from(self.value(place)?).ok()?).copied()
            }
            Expression::Call(name, arguments) => {
                let arguments = arguments.iter().map(|one| self.value(one)).collect::<Option<Vec<i64>>>()?;
                match (name.to_lowercase().replace('_', "").as_str(), arguments.as_slice()) {
                    ("nextpow2" | "nextpowerof2", [number]) => next_power(*number),
                    ("max", [one, other]) => Some(*one.max(other)),
                    ("min", [one, other]) => Some(*one.min(other)),
                    ("int", [number]) => Some(*number),
                    _ => None,
                }
            }
            Expression::Choice(parts) => {
                let [condition, then, otherwise] = &**parts;
                self.value(if self.value(condition)? != 0 { then } else { otherwise })
            }
            Expression::Binary(operator, one, other) => {
                let one = self.value(one)?;
                match *operator {
                    "||" | "or" if one != 0 => return Some(1),
                    "&&" | "and" if one == 0 => return Some(0),
                    _ => {}
                }
                binary(operator, one, self.value(other)?)
            }
        }
    }
}

fn binary(operator: &str, one: i64, other: i64) -> Option<i64> {
    Some(match operator {
        "||" | "or" | "&&" | "and" => i64::from(other != 0),
        "==" => i64::from(one == other),
        "!=" => i64::from(one != other),
        "<=" => i64::from(one <= other),
        ">=" => i64::from(one >= other),
        "<" => i64::from(one < other),
        ">" => i64::from(one > other),
        "<<" => one.checked_shl(u32::try_from(other).ok()?)?,
        "+" => one.checked_add(other)?,
        "-" => one.checked_sub(other)?,
        "*" => one.checked_mul(other)?,
        "/" | "//" => one.checked_div(other)?,
        "%" => one.checked_rem(other)?,
        _ => return None,
    })
}

/// Names, numbers and signs; what stands behind `//` and `#` on a line is a comment where a sentence or nothing follows.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            c if c.is_whitespace() => {
                rest = rest.trim_start();
                continue;
            }
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => {
                let two = rest.get(..2).filter(|two| OPERATORS.iter().any(|level| level.contains(two)));
                if two.is_none() && !"{}()[];,<>+-*/%=?:".contains(first) {
                    return None;
                }
                two.map_or(first.len_utf8(), str::len)
            }
        };
        let (word, behind) = rest.split_at_checked(length)?;
        words.push(word.to_string());
        rest = behind;
    }
    Some(words)
}

struct Reader {
    words: Vec<String>,
    place: usize,
    depth: u32,
}

impl Reader {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.place).map(String::as_str)
    }

    fn next(&mut self) -> Option<String> {
        let word = self.words.get(self.place).cloned();
        self.place += 1;
        word
    }

    /// Whether this word stands here; it is behind it then.
    fn takes(&mut self, word: &str) -> bool {
        let stands = self.peek() == Some(word);
        self.place += usize::from(stands);
        stands
    }

    fn expects(&mut self, word: &str) -> Option<()> {
        self.takes(word).then_some(())
    }

    fn block(&mut self) -> Option<Vec<Statement>> {
        if !self.takes("{") {
            return self.statement();
        }
        let mut block = Vec::new();
        while !self.takes("}") {
            block.extend(self.statement()?);
        }
        Some(block)
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let value = if self.depth > DEPTH { None } else { read(self) };
        self.depth -= 1;
        value
    }

    fn statement(&mut self) -> Option<Vec<Statement>> {
        self.deeper(Self::any_statement)
    }

    fn any_statement(&mut self) -> Option<Vec<Statement>> {
        match self.next()?.as_str() {
            ";" => Some(Vec::new()),
            "if" => {
                let condition = self.expression(0)?;
                let then = self.block()?;
                let otherwise = if self.takes("else") { self.block()? } else { Vec::new() };
                Some(vec![Statement::If(condition, then, otherwise)])
            }
            "for" => {
                let name = self.next()?;
                self.expects("in")?;
                let mut list = self.next()?;
                let from_its_end = list == "reversed";
                if from_its_end {
                    self.expects("(")?;
                    list = self.next()?;
                    self.expects(")")?;
                }
                Some(vec![Statement::For(name, list, from_its_end, self.block()?)])
            }
            "return" => {
                let value = self.whole_expression()?;
                self.expects(";")?;
                Some(vec![Statement::Return(value)])
            }
            first => {
                let mut name = first.to_string();
                // In front of a name its type.
                while matches!(name.as_str(), "const" | "int" | "auto" | "unsigned") {
                    name = self.next()?;
                }
                self.expects("=")?;
                let value = self.whole_expression()?;
                self.expects(";")?;
                Some(vec![Statement::Let(name, value)])
            }
        }
    }

    /// With a choice as C++ or as Python has it.
    fn whole_expression(&mut self) -> Option<Expression> {
        let first = self.expression(0)?;
        if self.takes("?") {
            let then = self.deeper(Self::whole_expression)?;
            self.expects(":")?;
            let otherwise = self.deeper(Self::whole_expression)?;
            return Some(Expression::Choice(Box::new([first, then, otherwise])));
        }
        if self.takes("if") {
            let condition = self.expression(0)?;
            self.expects("else")?;
            let otherwise = self.deeper(Self::whole_expression)?;
            return Some(Expression::Choice(Box::new([condition, first, otherwise])));
        }
        Some(first)
    }

    fn expression(&mut self, level: usize) -> Option<Expression> {
        let Some(operators) = OPERATORS.get(level) else { return self.deeper(Self::primary) };
        let mut value = self.expression(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.peek() == Some(**operator)) {
            self.place += 1;
            value = Expression::Binary(operator, Box::new(value), Box::new(self.expression(level + 1)?));
        }
        Some(value)
    }

    fn primary(&mut self) -> Option<Expression> {
        let word = self.next()?;
        if word == "(" {
            let value = self.whole_expression()?;
            self.expects(")")?;
            return Some(value);
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().ok().map(Expression::Number);
        }
        if !word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        if self.takes("[") {
            let place = self.expression(0)?;
            self.expects("]")?;
            return Some(Expression::Item(word, Box::new(place)));
        }
        if !self.takes("(") {
            return Some(Expression::Name(word));
        }
        let mut arguments = Vec::new();
        while !self.takes(")") {
            arguments.push(self.whole_expression()?);
            self.takes(",");
        }
        Some(Expression::Call(word, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_does_what_it_says() {
        let text = "int p = M; if (M <= 16 && N != 3) { p = nextPow2(M); } else if (M > 100 || N < 0) p = (M + 31) / 32 * 32; \
            else { return 1 << 3; }";
        let program = Program::parse(text, HashMap::new()).unwrap();
        let call = |m, n| program.call(&[("M", m), ("N", n)], "p");
        assert_eq!([call(5, 0), call(101, 0), call(50, 0), call(5, 3)], [Some(8), Some(128), Some(8), Some(8)]);
    }

    #[test]
    fn a_choice_is_one_in_both_languages() {
        for text in [
            "p = M < 16 ? nextPow2(M) : (M > LIMIT ? LIMIT : M);",
            "p = nextPow2(M) if M < 16 else (LIMIT if M > LIMIT else M);",
        ] {
            let program = Program::parse(text, [("LIMIT".to_string(), vec![64])].into()).unwrap();
            assert_eq!([3, 20, 100].map(|m| program.call(&[("M", m)], "p")), [4, 20, 64].map(Some), "{text}");
        }
    }

    #[test]
    fn lists_are_gone_through() {
        let text = "for t in reversed(TIERS) { if M >= t { return t; } } return TIERS[0];";
        let program = Program::parse(text, [("TIERS".to_string(), vec![10, 20])].into()).unwrap();
        assert_eq!([5, 15, 25].map(|m| program.call(&[("M", m)], "")), [Some(10), Some(10), Some(20)]);
    }

    #[test]
    fn what_is_beyond_it_is_refused() {
        for text in
            ["x = M ? 1;", "x = 1 if M;", "x = ;", "if (M { }", "while (M) { }", "x = \"a\";", "return M", "}", "("]
        {
            assert_eq!(Program::parse(text, HashMap::new()), None, "{text}");
        }
        assert_eq!(Program::parse(&"(".repeat(5000), HashMap::new()), None);
        for text in ["x = unknown(M);", "x = other;", "x = M / 0;", "x = L[3];"] {
            let program = Program::parse(text, [("L".to_string(), vec![1])].into()).unwrap();
            assert_eq!(program.call(&[("M", 1)], "x"), None, "{text}");
        }
    }
}
