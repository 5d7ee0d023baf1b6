//! A plan whose accounts have closed forms.

use plan::Plan;

/// Independent noise in ten rounds, of which one unit takes part in `max_participations`, `min_sep` rounds apart.
pub fn identity_plan(noise_multiplier: f64, min_sep: u64, max_participations: u64) -> Plan {
    let text = format!(
        "format = 1\nstream_version = {}\nchacha_rounds = 20\niterations = 10\nnoise_multiplier = \
         {noise_multiplier:?}\nclip_norm = 1.0\n[participation]\nmin_sep = {min_sep}\nmax_participations = \
         {max_participations}\n[mechanism]\nname = \"identity\"\n",
        plan::STREAM_VERSION
    );
    Plan::from_toml_str(&text).unwrap()
}
