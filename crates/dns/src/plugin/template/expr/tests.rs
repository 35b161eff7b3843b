//! Expressions with what they give, and those that are refused.

use super::*;
use crate::{testing::query_from, wire::code::rtype};
use proptest::prelude::*;

/// The value of an expression for a question, after these declarations.
fn run(text: &str) -> Result<String, String> {
    let query = query_from("10.240.0.1:4000", "2.Example.", rtype::AAAA);
    let groups = ["2.example.".to_owned(), "2".to_owned()];
    let names = [("n".to_owned(), "2".to_owned())];
    let mut asked = Asked { query: &query, groups: &groups, names: &names, variables: Vec::new() };
    let mut known = Variables::default();
    for (name, text) in [("num", "1"), ("half", "0.5"), ("word", "'abc'"), ("yes", "true"), ("list", "['a', 'b']")] {
        let expression = Expression::compile(text, &known).unwrap();
        known.declare(name, &expression).unwrap();
        asked.variables.push(expression.run(&asked).unwrap());
    }
    let expression = Expression::compile(text, &known).map_err(|mistake| mistake.to_string())?;
    expression.run(&asked).map(|value| value.to_string())
}

#[test]
fn expressions_give_what_the_language_says() {
    for (text, expected) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("7 / 2", "3.5"),
        ("7 % 4 - 1", "2"),
        ("4 / 2", "2"),
        ("2 ** 3 ** 2", "512"),
        ("-2 ^ 2", "-4"),
        ("- num + +2", "1"),
        ("1e3", "column 1 of the expression: is no number; accepted: 12, 0x1f, 0b11, 0o17, 1_000, 1.5"),
        ("0x1F + 0b11 + 0o17 + 1_000", "1049"),
        ("1.5 + num", "2.5"),
        ("9223372036854775807 + 1", "-9223372036854775808"),
        ("'a' + \"b\" + `c\\`", "abc\\"),
        (r"'\'' + '\n' == '\'' + '\n'", "true"),
        ("num == 1.0 and num != 2", "true"),
        ("'a' < 'b' && 2 >= 2 && !(1 > 2)", "true"),
        ("not yes or yes", "true"),
        ("false and int('x') == 1", "false"),
        ("true || int('x') == 1", "true"),
        ("yes ? 'a' : 'b'", "a"),
        ("num > 1 ? 'a' : num > 0 ? 'b' : 'c'", "b"),
        ("word contains 'b' and word startsWith 'a' and word endsWith 'c'", "true"),
        ("word not contains 'b' or word not startsWith 'a'", "false"),
        ("word matches '^[a-c]+$'", "true"),
        ("word not matches `^\\d+$`", "true"),
        ("'a' in list", "true"),
        ("'c' not in list", "true"),
        ("num in [1, 2, 3]", "true"),
        ("5 in 1..3", "false"),
        ("num in 1..num + 2", "true"),
        ("list[0] + list[-1]", "ab"),
        ("split(name(), '.')[0]", "2"),
        ("word[1:] + word[:1] + word[-1:] + word[5:9]", "bcac"),
        ("join(list[1:], '-')", "b"),
        ("list == ['a', 'b']", "true"),
        ("len(word) + len(list)", "5"),
        ("int('12') + int(3.9)", "15"),
        ("float('1.5') * 2", "3"),
        ("string(1.5) + string(true) + string(2)", "1.5true2"),
        ("upper(word) + lower('X') + trim(' y ')", "ABCxy"),
        ("trimPrefix(word, 'a') + trimSuffix(word, 'c')", "bcab"),
        ("hasPrefix(word, 'a') and hasSuffix(word, 'c')", "true"),
        ("indexOf(word, 'c') + indexOf(word, 'x')", "1"),
        ("replace(word, 'b', '-')", "a-c"),
        ("name() + type() + class() + proto()", "2.example.AAAAINudp"),
        ("client_ip() + ' ' + port()", "10.240.0.1 4000"),
        ("size() == 40 and bufsize() == 1232 and id() == 7 and opcode() == 0 and not do()", "true"),
        ("group(0) + group(1) + group('n') + group('1') + group(9) + group('none')", "2.example.222"),
        ("metadata('any/label')", ""),
        ("incidr(client_ip(), '10.0.0.0/8')", "true"),
        ("incidr('1.2.3.4', '1.2.0.0/16')", "true"),
        ("incidr('10.2.3.4', '1.2.0.0/16')", "false"),
        ("incidr('1:2::3:4', '1:2::/64')", "true"),
        ("incidr('A:2::3:4', '1:2::/64')", "false"),
        ("incidr('10.2.3.4', '1:2::/64')", "false"),
    ] {
        let got = run(text).unwrap_or_else(|problem| problem);
        assert_eq!(got, expected, "{text}");
    }
}

#[test]
fn values_can_be_wrong_when_it_runs() {
    for (text, expected) in [
        ("incidr('1.2.3.4', 'invalid')", "\"invalid\" is no range of addresses such as 10.0.0.0/8 or fd00::/8"),
        ("incidr('invalid', '1.2.0.0/16')", "\"invalid\" is no address"),
        ("int('x')", "\"x\" is no whole number"),
        ("float('x')", "\"x\" is no number"),
        ("num % 0", "a remainder of a division by zero"),
        ("list[2]", "index out of range: 2 of 2"),
        ("list[-3]", "index out of range: -3 of 2"),
    ] {
        assert_eq!(run(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn what_is_not_built_or_does_not_fit_is_refused_with_its_column() {
    for (text, column, part) in [
        ("1 +", 4, "a value is missing; accepted: a number, a text in quotes"),
        ("", 1, "a value is missing"),
        ("invalid expression", 1, "invalid is no variable; known: num, half, word, yes, list"),
        ("num two", 5, "two does not belong here; accepted: an operator or the end"),
        ("'x' + num", 5, "+ is not for string and int"),
        ("num == 'x'", 5, "== is not for int and string"),
        ("num and yes", 5, "and is not for int and bool"),
        ("not num", 1, "not is for true and false, and not for int"),
        ("-word", 1, "a sign is for numbers, and not for string"),
        ("half % 2", 6, "% is not for float and int"),
        ("word in [1]", 6, "in is not for string and list of int"),
        ("half in 1..2", 6, "in a..b is for whole numbers"),
        ("[1, 'a']", 1, "the values of a list have one kind"),
        ("[]", 1, "a list has at least one value"),
        ("num ? 1 : 2", 1, "a condition is true or false, and not int"),
        ("yes ? 1 : 'a'", 11, "both values of a choice have one kind, and not int and string"),
        ("yes ? 1", 8, "the end stands where : is expected"),
        ("word[0]", 5, "an index is for lists, and not for string"),
        ("list['a']", 6, "an index is a whole number, and not string"),
        ("num[1:]", 4, "[:] is for texts and lists, and not for int"),
        ("nope(1)", 1, "nope is no function; accepted: bufsize, class, client_ip"),
        ("max(1, 2)", 1, "max is not built; accepted: bufsize"),
        ("server_ip()", 1, "server_ip is not built"),
        ("name", 1, "name is a function: write name(...)"),
        ("name(1)", 1, "name takes (), and not (int)"),
        ("incidr(1, 'a')", 1, "incidr takes (string, string), and not (int, string)"),
        ("word matches word", 14, "matches takes a pattern in quotes"),
        ("word matches '('", 14, "must be a regular expression as Go accepts it: regex parse error"),
        ("nil", 1, "nil is not built"),
        ("let x = 1; x", 1, "let is not built"),
        ("{'a': 1}", 1, "{ is not built"),
        ("num ?? 2", 5, "?? does not belong here"),
        ("word | upper()", 6, "| does not belong here"),
        ("word.size", 5, ". does not belong here"),
        ("(num", 5, "the end stands where ) is expected"),
        ("'open", 1, "the text has no closing quote"),
        (r"'\q'", 1, "has an unknown escape"),
        ("num @ 2", 5, "'@' means nothing in an expression"),
        ("num not two", 5, "not is followed by in, matches, contains"),
        ("99999999999999999999", 1, "is no number"),
    ] {
        let problem = run(text).unwrap_err();
        let start = format!("column {column} of the expression: {part}");
        assert!(problem.starts_with(&start), "{text}: {problem}");
    }
    let deep = "(".repeat(1000) + "1";
    assert!(run(&deep).unwrap_err().contains("nested more than 40 deep"));
    assert!(run(&"-".repeat(1000)).unwrap_err().contains("nested more than 40 deep"));
    assert!(run(&vec!["1"; 1000].join("+")).unwrap_err().contains("more than 250 parts"));
}

proptest! {
    #[test]
    fn any_words_are_run_or_refused(text in r#"(num|word|list|yes|[0-9]{1,3}|'a'|"|\(|\)|\[|\]|,|:|\?| |\+|-|\*|%|\*\*|==|<|in|not|and|matches|\.\.|name\(\)|len|!){0,25}"#) {
        let _ = run(&text);
    }

    #[test]
    fn any_letters_are_run_or_refused(text in ".{0,60}") {
        let _ = run(&text);
    }
}
