//! What a filter's text must be before the SQL planner sees it.
//!
//! The planner of 14.0.2 descends once for every operator of a chain such as `a + b + c`, with a cost that grows faster
//! than the square of its length: two thousand of them overflow the stack, which takes the process down and which no guard
//! can catch. And it stops at the first text that is not part of the expression: `id < 2 id > 100` is read as `id < 2`, in
//! a delete too.

use crate::error::{Error, Result};

/// Longer filters are refused. A list of a hundred thousand numbers fits.
const MAX_BYTES: usize = 1 << 20;

/// Words and signs in one operand: what stands between commas, parentheses, AND and OR.
const MAX_OPERAND: usize = 400;

/// How much of a filter an error repeats.
const SHOWN: usize = 200;

/// The filter for an error's text.
pub fn shown(filter: &str) -> String {
    match filter.char_indices().nth(SHOWN) {
        None => format!("{filter:?}"),
        Some((at, _)) => format!("{:?}... ({} bytes)", &filter[..at], filter.len()),
    }
}

/// The filter as one complete expression, so that what does not belong to it is an error.
pub fn complete(filter: &str) -> Result<String> {
    check(filter)?;
    Ok(format!("(\n{filter}\n)"))
}

/// The text that `complete` was given.
pub fn inner(complete: &str) -> &str {
    complete
        .strip_prefix("(\n")
        .and_then(|text| text.strip_suffix("\n)"))
        .unwrap_or(complete)
}

fn refuse(filter: &str, reason: &str) -> Result<()> {
    Err(Error::invalid(format!("filter {}: {reason}", shown(filter))))
}

fn check(filter: &str) -> Result<()> {
    if filter.len() > MAX_BYTES {
        return refuse(
            filter,
            &format!("it is longer than the {MAX_BYTES} bytes that are allowed"),
        );
    }
    // The length of the operand so far, for each parenthesis that is open.
    let mut open: Vec<usize> = vec![0];
    let mut rest = filter.char_indices().peekable();
    while let Some((start, c)) = rest.next() {
        let mut word = None;
        match c {
            '\0' => return refuse(filter, "it contains a NUL character"),
            _ if c.is_whitespace() => continue,
            '\'' | '"' | '`' => {
                // A doubled quote is two texts in a row here, which counts no less.
                let ends = rest.by_ref().any(|(_, other)| other == c);
                if !ends {
                    return refuse(
                        filter,
                        &format!("a text that starts with {c} at byte {start} does not end"),
                    );
                }
            }
            '(' => {
                open.push(0);
                continue;
            }
            ')' => {
                open.pop();
                if open.is_empty() {
                    return refuse(filter, &format!("the parenthesis at byte {start} closes none"));
                }
            }
            ',' => {
                *open.last_mut().unwrap_or(&mut 0) = 0;
                continue;
            }
            _ if c.is_alphanumeric() || c == '_' => {
                let mut end = start + c.len_utf8();
                while let Some((at, c)) = rest.next_if(|(_, c)| c.is_alphanumeric() || *c == '_') {
                    end = at + c.len_utf8();
                }
                word = Some(&filter[start..end]);
            }
            _ => {}
        }
        let Some(length) = open.last_mut() else { continue };
        if word.is_some_and(|w| w.eq_ignore_ascii_case("and") || w.eq_ignore_ascii_case("or")) {
            *length = 0;
            continue;
        }
        *length += 1;
        if *length > MAX_OPERAND {
            return refuse(
                filter,
                &format!(
                    "one operand has more than {MAX_OPERAND} words and signs: the planner cannot take chains that long"
                ),
            );
        }
    }
    match open.len() {
        1 => Ok(()),
        n => refuse(filter, &format!("{} parentheses are not closed", n - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write_passes() {
        let list = (0..50_000).map(|i| format!("-{i}")).collect::<Vec<_>>().join(", ");
        let ors = vec!["id = 1"; 20_000].join(" OR ");
        for filter in [
            "id < 2",
            "`a b`.c IS NOT NULL and title = 'it''s (fine'",
            "ts > timestamp '2024-01-01 00:00:00' or (x in (1, 2) and not y)",
            &format!("id in ({list})"),
            &ors,
        ] {
            assert!(check(filter).is_ok(), "{}", shown(filter));
        }
    }

    #[test]
    fn what_harms_does_not() {
        for filter in [
            format!("id < 0{}", " + id".repeat(2000)),
            format!("id < 4{}", " is not true".repeat(2000)),
            format!("title < 'a'{}", " || 'a'".repeat(3000)),
            format!("(1){}", "+(1)".repeat(3000)),
            "id < 2 ) or (true".into(),
            "(id < 2".into(),
            "title = 'open".into(),
            "id < 2\0 or true".into(),
            " ".repeat(MAX_BYTES + 1),
        ] {
            let error = check(&filter).unwrap_err();
            assert_eq!(error.code, crate::error::INVALID_ARGUMENT);
            assert!(error.message.len() < 500, "{}", error.message);
        }
    }
}
