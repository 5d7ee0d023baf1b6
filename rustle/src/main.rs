fn main() -> std::process::ExitCode {
    rustle::main()
}
