//! What every benchmark needs: what it is told by its environment, and the middle of what it measured.

use std::str::FromStr;

/// The text of a variable of the environment, if it has one.
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// The number in a variable of the environment, else `default`.
///
/// # Panics
/// If it is no number.
pub fn number<T: FromStr>(name: &str, default: T) -> T {
    text(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The median; not a number where there are no values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}
