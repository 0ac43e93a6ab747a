//! SCOREFUNC: scores that depend on values of fields.

use crate::upstash::value::Value;

/// A change of a value before it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Modifier {
    /// Nothing.
    #[default]
    None,
    /// The logarithm to base ten of the value and this.
    Log(u8),
    /// The natural logarithm of the value and this.
    Ln(u8),
    /// Its square.
    Square,
    /// Its square root.
    Sqrt,
    /// One divided by it.
    Reciprocal,
}

impl Modifier {
    /// The modifier of this name, in any case.
    pub fn of_name(name: &str) -> Option<Modifier> {
        Some(match name.to_ascii_uppercase().as_str() {
            "NONE" => Modifier::None,
            "LOG" => Modifier::Log(0),
            "LOG1P" => Modifier::Log(1),
            "LOG2P" => Modifier::Log(2),
            "LN" => Modifier::Ln(0),
            "LN1P" => Modifier::Ln(1),
            "LN2P" => Modifier::Ln(2),
            "SQUARE" => Modifier::Square,
            "SQRT" => Modifier::Sqrt,
            "RECIPROCAL" => Modifier::Reciprocal,
            _ => return None,
        })
    }

    /// None if the value does not fit.
    fn of(self, value: f64) -> Option<f64> {
        let result = match self {
            Modifier::None => value,
            Modifier::Log(added) => (value + f64::from(added)).log10(),
            Modifier::Ln(added) => (value + f64::from(added)).ln(),
            Modifier::Square => value * value,
            Modifier::Sqrt => value.sqrt(),
            Modifier::Reciprocal => 1.0 / value,
        };
        result.is_finite().then_some(result)
    }
}

/// How two figures become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// They are multiplied.
    #[default]
    Multiply,
    /// They are added.
    Sum,
    /// Only the second counts.
    Replace,
}

impl Operation {
    /// The operation of this name, in any case.
    pub fn of_name(name: &str) -> Option<Operation> {
        Some(match name.to_ascii_uppercase().as_str() {
            "MULTIPLY" => Operation::Multiply,
            "SUM" => Operation::Sum,
            "REPLACE" => Operation::Replace,
            _ => return None,
        })
    }

    fn of(self, first: f64, second: f64) -> f64 {
        match self {
            Operation::Multiply => first * second,
            Operation::Sum => first + second,
            Operation::Replace => second,
        }
    }
}

/// A field whose value counts.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldScore {
    /// The number of the field.
    pub field: u16,
    /// The change of the value.
    pub modifier: Modifier,
    /// It is multiplied by this afterwards.
    pub factor: f64,
    /// It counts instead of a value that is absent or does not fit the modifier.
    pub missing: f64,
}

/// A change of scores by values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoreFunction {
    /// The fields that count.
    pub fields: Vec<FieldScore>,
    /// How their figures become one.
    pub combine: Operation,
    /// How that changes the score.
    pub mode: Operation,
}

impl ScoreFunction {
    /// The score of a document with these values.
    pub fn score(&self, score: f64, values: &[(u16, Value)]) -> f64 {
        let figures = self.fields.iter().map(|field| {
            let value = values.iter().find(|(number, _)| *number == field.field);
            let value = value.and_then(|(_, value)| value.number());
            let value = value.and_then(|value| field.modifier.of(value));
            let value = value
                .or_else(|| field.modifier.of(field.missing))
                .unwrap_or(field.missing);
            value * field.factor
        });
        match figures.reduce(|first, second| self.combine.of(first, second)) {
            Some(figure) => self.mode.of(score, figure),
            None => score,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_change_scores() {
        let field = |number, modifier: &str| FieldScore {
            field: number,
            modifier: Modifier::of_name(modifier).unwrap(),
            factor: 2.0,
            missing: 9.0,
        };
        let values = [(0, Value::U64(99)), (1, Value::F64(-4.0))];
        for (fields, combine, mode, expected) in [
            (vec![field(0, "log1p")], "multiply", "multiply", 12.0),
            (vec![field(0, "none"), field(7, "sqrt")], "sum", "sum", 207.0),
            (vec![field(1, "sqrt")], "multiply", "replace", 6.0),
            (vec![field(1, "square")], "multiply", "replace", 32.0),
        ] {
            let function = ScoreFunction {
                fields,
                combine: Operation::of_name(combine).unwrap(),
                mode: Operation::of_name(mode).unwrap(),
            };
            assert_eq!(function.score(3.0, &values), expected);
        }
    }
}
