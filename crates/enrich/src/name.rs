//! The best name for a service without a declared name: the name that people would use if they saw the program in `ps`.
//!
//! In order: `-Dotel.service.name=` of a JVM; the script, module, jar or main class that an interpreter runs; the name
//! of the executable; the name of the task. (`OTEL_SERVICE_NAME` in the environment is stronger still, see `proc.rs`.)

/// Name and, for interpreters, the runtime (`process.runtime.name`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) service: String,
    pub(crate) runtime: Option<&'static str>,
}

/// What precedes the script on an interpreter's command line.
struct Interpreter {
    /// Prefix of the executable's name; a version may follow (`python3.11`).
    exe: &'static str,
    runtime: &'static str,
    /// Options whose value is the next argument.
    valued: &'static [&'static str],
    /// Options after which there is no script (`-c CODE`).
    eval: &'static [&'static str],
    /// Options whose value names the program (`-m MODULE`).
    program: &'static [&'static str],
}

const fn plain(exe: &'static str, runtime: &'static str, eval: &'static [&'static str]) -> Interpreter {
    Interpreter { exe, runtime, valued: &[], eval, program: &[] }
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        exe: "python",
        runtime: "python",
        valued: &["-W", "-X", "--check-hash-based-pycs"],
        eval: &["-c"],
        program: &["-m"],
    },
    Interpreter { exe: "pypy", runtime: "python", valued: &["-W", "-X"], eval: &["-c"], program: &["-m"] },
    Interpreter {
        exe: "node",
        runtime: "nodejs",
        valued: &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "-C",
            "--conditions",
            "--env-file",
        ],
        eval: &["-e", "--eval", "-p", "--print", "-pe"],
        program: &[],
    },
    Interpreter {
        exe: "java",
        runtime: "java",
        valued: &[
            "-cp",
            "-classpath",
            "--class-path",
            "-p",
            "--module-path",
            "--add-modules",
            "--add-opens",
            "--add-exports",
            "--add-reads",
            "--limit-modules",
            "--upgrade-module-path",
            "--enable-native-access",
            "--source",
        ],
        eval: &[],
        program: &["-jar", "-m", "--module"],
    },
    Interpreter { exe: "ruby", runtime: "ruby", valued: &["-I", "-r", "-C"], eval: &["-e"], program: &[] },
    Interpreter {
        exe: "php",
        runtime: "php",
        valued: &["-c", "-d", "-S", "-t", "-z"],
        eval: &["-r", "-B", "-R"],
        program: &["-f"],
    },
    Interpreter { exe: "perl", runtime: "perl", valued: &["-I"], eval: &["-e", "-E"], program: &[] },
    Interpreter {
        exe: "dotnet",
        runtime: "dotnet",
        valued: &["--depsfile", "--runtimeconfig"],
        eval: &[],
        program: &[],
    },
    Interpreter { exe: "deno", runtime: "deno", valued: &["-c", "--config"], eval: &["eval"], program: &[] },
    Interpreter { exe: "bun", runtime: "bun", valued: &["-r", "--preload"], eval: &["-e"], program: &[] },
    plain("lua", "lua", &["-e"]),
    plain("bash", "", &["-c"]),
    plain("dash", "", &["-c"]),
    plain("zsh", "", &["-c"]),
    plain("ksh", "", &["-c"]),
    plain("sh", "", &["-c"]),
];

/// Words that stand between an interpreter and its script (`deno run`, `dotnet exec`).
const SUBCOMMANDS: &[&str] = &["run", "exec"];

/// Servers that load an application given as `module:attribute`. The service is named after the application.
const LAUNCHERS: &[&str] = &["gunicorn", "uvicorn", "hypercorn", "daphne", "granian", "waitress-serve"];

/// Names that say nothing. The folder's name is taken instead (`/srv/cart/main.py` is `cart`).
const GENERIC: &[&str] = &[
    "main",
    "__main__",
    "app",
    "application",
    "server",
    "index",
    "run",
    "start",
    "wsgi",
    "asgi",
    "manage",
    "src",
    "dist",
    "build",
    "bin",
    "lib",
    "target",
    "release",
    "debug",
    "classes",
    "site-packages",
    "dist-packages",
];

/// Names a process by its executable, its arguments and its task name.
pub(crate) fn name(exe: &str, args: &[String], comm: &str) -> Named {
    let base = base_name(exe.strip_suffix(" (deleted)").unwrap_or(exe));
    let first = args.first().map_or("", String::as_str);
    let (base, args) = match base {
        // A user started the loader directly: `ld-linux-x86-64.so.2 /opt/program args`.
        b if b.starts_with("ld-") && b.contains(".so") && args.len() > 1 => (base_name(&args[1]), &args[1..]),
        // One executable with many names.
        "busybox" | "toybox" if !first.is_empty() => (base_name(first.trim_start_matches('-')), args),
        b => (other_name(b, first, comm).unwrap_or(b), args),
    };
    if base.is_empty() {
        return named(or(comm, "unknown"), None);
    }
    if base.starts_with("php-fpm") {
        return named("php-fpm", Some("php"));
    }
    if base == "beam.smp" {
        return named(beam(args).unwrap_or("erlang"), Some("erlang"));
    }
    let Some(i) = INTERPRETERS.iter().find(|i| is_version_of(base, i.exe)) else { return named(base, None) };
    let runtime = (!i.runtime.is_empty()).then_some(i.runtime);
    named(&program(i, args).unwrap_or_else(|| i.exe.into()), runtime)
}

/// The name of the link by which an executable was started (`redis-server` → `redis-check-rdb` in Debian). The kernel
/// names the task after the link, and the first argument has the same name.
fn other_name<'a>(base: &str, first: &'a str, comm: &str) -> Option<&'a str> {
    let called = base_name(first.split([' ', ':']).next()?);
    let kernels = called.get(..called.len().min(15))?;
    (!comm.is_empty() && kernels == comm && !base.starts_with(comm)).then_some(called)
}

fn named(service: &str, runtime: Option<&'static str>) -> Named {
    let service = service.chars().filter(|c| !c.is_control()).take(128).collect();
    Named { service, runtime }
}

fn or<'a>(a: &'a str, b: &'a str) -> &'a str {
    if a.is_empty() {
        b
    } else {
        a
    }
}

/// `python`, `python3`, `python3.11`, but not `pythonista`.
fn is_version_of(base: &str, exe: &str) -> bool {
    base.strip_prefix(exe).is_some_and(|v| v.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-'))
        || (exe == "node" && base == "nodejs")
}

fn program(i: &Interpreter, args: &[String]) -> Option<String> {
    // A process title written over the arguments: `puma: cluster worker 0: 7 [shop]`, `gunicorn: master [cart]`.
    let first = args.first()?;
    if args.len() == 1 && first.contains(' ') {
        let title = first.split([':', ' ']).next()?;
        return (!title.is_empty()).then(|| base_name(title).into());
    }
    let mut rest = args.iter().skip(1).map(String::as_str);
    while let Some(arg) = rest.next() {
        if let Some(name) = arg.strip_prefix("-Dotel.service.name=") {
            return Some(name.into());
        }
        if i.program.contains(&arg) {
            // Options of a JVM stand before the main class, so a service name cannot follow it.
            let value = rest.next()?;
            return Some(launched(value, rest).unwrap_or_else(|| display(i, value)));
        }
        if i.eval.contains(&arg) {
            return None;
        }
        if i.valued.contains(&arg) {
            rest.next();
            continue;
        }
        // Python allows joined flags: `-um module`, `-Bc code`.
        if i.runtime == "python" && arg.len() > 2 && arg.starts_with('-') && !arg.starts_with("--") {
            match arg.as_bytes().last() {
                Some(b'm') if !arg.starts_with("-W") && !arg.starts_with("-X") => {
                    let value = rest.next()?;
                    return Some(launched(value, rest).unwrap_or_else(|| display(i, value)));
                }
                Some(b'c') if !arg.starts_with("-W") && !arg.starts_with("-X") => return None,
                _ => {}
            }
        }
        if arg.starts_with('-') || arg.starts_with('@') || arg.is_empty() {
            continue;
        }
        if matches!(i.exe, "deno" | "bun" | "dotnet") && SUBCOMMANDS.contains(&arg) {
            continue;
        }
        return Some(launched(arg, rest).unwrap_or_else(|| display(i, arg)));
    }
    None
}

/// The application behind a launcher: `gunicorn -b :80 shop.wsgi:app` is `shop`.
fn launched<'a>(script: &str, rest: impl Iterator<Item = &'a str>) -> Option<String> {
    if !LAUNCHERS.contains(&base_name(script)) {
        return None;
    }
    let app = rest.into_iter().find(|a| {
        a.split_once(':').is_some_and(|(module, attr)| {
            !module.is_empty()
                && module.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && module.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
                && attr.starts_with(|c: char| c.is_alphabetic() || c == '_')
        })
    })?;
    let module = app.split(':').next()?;
    let parts: Vec<&str> = module.split('.').collect();
    Some(parts.iter().rev().find(|p| !GENERIC.contains(*p)).or(parts.last())?.to_string())
}

/// The usual name of a script, module, class or jar.
fn display(i: &Interpreter, program: &str) -> String {
    if i.runtime == "java" && !program.ends_with(".jar") && !program.ends_with(".java") {
        // `module/com.acme.Shop` or `com.acme.Shop`
        return program.rsplit(['.', '/']).next().unwrap_or(program).into();
    }
    let stem = stem(base_name(program));
    if !GENERIC.contains(&stem) {
        return stem.into();
    }
    let folders = program.rsplit('/').skip(1);
    let told = folders.into_iter().find(|f| !f.is_empty() && *f != "." && *f != ".." && !GENERIC.contains(f));
    // With a single folder below the root (`/app/main.py`) the folder says nothing: keep the stem.
    told.unwrap_or(stem).into()
}

fn stem(file: &str) -> &str {
    const EXTENSIONS: &[&str] =
        &[".py", ".pyc", ".js", ".mjs", ".cjs", ".ts", ".rb", ".php", ".pl", ".sh", ".dll", ".lua", ".java"];
    if let Some(jar) = file.strip_suffix(".jar") {
        // `shop-1.2.3-SNAPSHOT.jar` is `shop`.
        let version = jar.match_indices('-').find(|(at, _)| jar[at + 1..].starts_with(|c: char| c.is_ascii_digit()));
        return version.map_or(jar, |(at, _)| &jar[..at]);
    }
    EXTENSIONS.iter().find_map(|e| file.strip_suffix(e)).filter(|s| !s.is_empty()).unwrap_or(file)
}

fn beam(args: &[String]) -> Option<&str> {
    let at = args.iter().position(|a| a == "-sname" || a == "-name")?;
    args.get(at + 1)?.split('@').next().filter(|s| !s.is_empty())
}

fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(exe: &str, line: &str) -> String {
        let args: Vec<String> = line.split('|').map(String::from).collect();
        name(exe, &args, "comm").service
    }

    #[test]
    fn compiled_programs_are_called_by_their_executable() {
        assert_eq!(of("/usr/sbin/nginx", "nginx: worker process"), "nginx");
        assert_eq!(of("/usr/bin/redis-server", "/usr/bin/redis-server 127.0.0.1:6379"), "redis-server");
        assert_eq!(of("/opt/cart (deleted)", "./cart|--port|80"), "cart");
        assert_eq!(of("/usr/lib/postgresql/15/bin/postgres", "postgres: checkpointer "), "postgres");
        assert_eq!(of("/bin/busybox", "httpd|-f"), "httpd");
        assert_eq!(of("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2|/opt/stock"), "stock");
        assert_eq!(of("", ""), "comm");
        assert_eq!(name("", &[], "").service, "unknown");
    }

    #[test]
    fn a_program_started_through_a_link_is_called_by_the_link() {
        let by = |exe: &str, first: &str, comm: &str| name(exe, &[first.to_string()], comm).service;
        assert_eq!(by("/usr/bin/redis-check-rdb", "/usr/bin/redis-server", "redis-server"), "redis-server");
        assert_eq!(by("/usr/bin/redis-check-rdb", "redis-server 127.0.0.1:6379", "redis-server"), "redis-server");
        assert_eq!(by("/usr/sbin/nginx", "nginx: worker process", "nginx"), "nginx");
        assert_eq!(by("/opt/app", "/opt/app", "renamed-thread"), "app");
    }

    #[test]
    fn interpreters_are_called_by_what_they_run() {
        for (exe, line, want) in [
            ("/usr/bin/python3.11", "python3|-u|/srv/cart.py|--port|80", "cart"),
            ("/usr/bin/python3.11", "python3|/srv/cart/main.py", "cart"),
            ("/usr/bin/python3.11", "python3|main.py", "main"),
            ("/usr/bin/python3.11", "python3|-m|http.server|80", "http.server"),
            ("/usr/bin/python3.11", "python3|-Bum|stock", "stock"),
            ("/usr/bin/python3.11", "python3|-W|ignore|-X|dev|x.py", "x"),
            ("/usr/bin/python3.11", "python3|-c|import os", "python"),
            ("/usr/bin/python3.11", "python3", "python"),
            ("/usr/bin/python3.11", "python3|/usr/bin/gunicorn|-b|:80|shop.wsgi:app", "shop"),
            ("/usr/bin/python3.11", "python3|-m|uvicorn|--host|0.0.0.0|--port|80|prices.main:app", "prices"),
            ("/usr/bin/python3.11", "python3|/usr/bin/gunicorn|-c|conf.py", "gunicorn"),
            ("/usr/bin/python3.11", "gunicorn: master [cart]", "gunicorn"),
            ("/usr/bin/node", "node|--require|./otel.js|--inspect=0|/srv/users/dist/index.js", "users"),
            ("/usr/bin/nodejs", "nodejs|server.mjs", "server"),
            ("/usr/bin/node", "node|-e|code", "node"),
            ("/usr/lib/jvm/17/bin/java", "java|-Xmx1g|-jar|/srv/orders-1.2.3-SNAPSHOT.jar", "orders"),
            ("/usr/lib/jvm/17/bin/java", "java|-cp|a.jar:b.jar|com.acme.shop.CartMain|x", "CartMain"),
            ("/usr/lib/jvm/17/bin/java", "java|-m|acme.shop/com.acme.Shop", "Shop"),
            ("/usr/lib/jvm/17/bin/java", "java|-Dotel.service.name=pay|-jar|x.jar", "pay"),
            ("/usr/lib/jvm/17/bin/java", "java|Prices.java", "Prices"),
            ("/usr/bin/ruby3.1", "puma 6.4.0 (tcp://0.0.0.0:3000) [shop]", "puma"),
            ("/usr/bin/ruby3.1", "ruby|-I|lib|/srv/mail.rb", "mail"),
            ("/usr/bin/php8.2", "php|-S|0:80|-t|www|router.php", "router"),
            ("/usr/sbin/php-fpm8.2", "php-fpm: pool www", "php-fpm"),
            ("/usr/bin/dotnet", "dotnet|exec|/app/Shop.Api.dll", "Shop.Api"),
            ("/usr/bin/deno", "deno|run|--allow-net|stock.ts", "stock"),
            ("/usr/bin/dash", "sh|/usr/local/bin/entry.sh", "entry"),
            ("/usr/bin/dash", "sh|-c|sleep 1", "dash"),
            ("/usr/lib/erlang/bin/beam.smp", "beam.smp|-sname|rabbit@h|-x", "rabbit"),
        ] {
            assert_eq!(of(exe, line), want, "{exe} {line}");
        }
    }

    #[test]
    fn names_that_only_look_like_interpreters_are_left_alone() {
        assert_eq!(of("/usr/bin/nodetool", "nodetool|x.js"), "nodetool");
        assert_eq!(of("/usr/bin/javac", "javac|X.java"), "javac");
        assert_eq!(of("/usr/bin/shred", "shred|f"), "shred");
    }

    #[test]
    fn control_characters_and_length_are_bounded() {
        let long = format!("/x/{}", "a".repeat(500));
        assert_eq!(name(&long, &[], "").service.len(), 128);
        assert_eq!(of("/x/a\u{1b}[31mb", ""), "a[31mb");
    }

    #[test]
    fn runtime_is_told_for_interpreters_only() {
        assert_eq!(name("/usr/bin/python3", &["python3".into(), "x.py".into()], "").runtime, Some("python"));
        assert_eq!(name("/usr/bin/bash", &["bash".into(), "x.sh".into()], "").runtime, None);
        assert_eq!(name("/usr/sbin/nginx", &["nginx".into()], "").runtime, None);
    }
}
