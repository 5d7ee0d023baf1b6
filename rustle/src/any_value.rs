//! Values that flags are given, whatever they look like.

use std::any::TypeId;

use crate::numbers;

/// Lets every flag take a negative value, so that the error is about the value and names the flag; and lets no number become
/// 0 or infinite on its way.
pub fn take_any_value(flag: clap::Arg) -> clap::Arg {
    if !flag.get_action().takes_values() || flag.is_positional() {
        return flag;
    }
    let of_text = ["DURATION", "A..B", "BYTES", "PERCENT"];
    let names = flag.get_value_names().unwrap_or_default();
    let is_text = names.iter().any(|name| of_text.contains(&name.as_str()));
    let is_number = !is_text && flag.get_value_parser().type_id() == TypeId::of::<f64>();
    let flag = if is_number { flag.value_parser(numbers::number) } else { flag };
    if is_text { flag.allow_hyphen_values(true) } else { flag.allow_negative_numbers(true) }
}
