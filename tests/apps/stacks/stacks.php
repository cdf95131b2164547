<?php

// A server that says in which functions it waits or runs: before it does, it writes its own stack to FILE.truth.
//
// usage: stacks.php PORT      answers GET /WHAT/MILLISECONDS; FILE is this file

// Each call of debug_backtrace() is a function with the place from which it was called: a function's own place is that
// of the call before it.
function stack(string $path): void
{
    $calls = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS);
    $frames = [];
    foreach ($calls as $n => $call) {
        $outer = $calls[$n + 1] ?? ["function" => "{main}"];
        $isFile = in_array($outer["function"], ["include", "require"]);
        $name = $isFile ? "{main}" : $outer["function"];
        if (isset($outer["class"]) && !$isFile) {
            $name = explode("\0", $outer["class"])[0] . "::" . $name;
        }
        $place = isset($call["file"]) ? $call : ($calls[$n + 1] ?? []);
        $frames[] = $name . " (" . basename($place["file"]) . ":" . $place["line"] . ")";
    }
    $line = json_encode([$path, $frames], JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
    file_put_contents(__FILE__ . ".truth", $line . "\n", FILE_APPEND);
}

function sleepWork(string $path, int $ms): void
{
    stack($path); usleep($ms * 1000);
}

class Shop
{
    public function deep(string $path, int $ms, int $levels = 100): void
    {
        $levels ? $this->deep($path, $ms, $levels - 1) : sleepWork($path, $ms);
    }

    public function mapped(string $path, int $ms): array
    {
        return array_map(fn ($n) => sleepWork($path, $ms), [1]);
    }

    public function generated(string $path, int $ms): array
    {
        $prices = function () use ($path, $ms) {
            yield 1;
            sleepWork($path, $ms);
        };
        return iterator_to_array($prices());
    }

    public function café(string $path, int $ms): void
    {
        sleepWork($path, $ms);
    }

    public static function ofClass(string $path, int $ms): void
    {
        sleepWork($path, $ms);
    }

    public function __call(string $name, array $arguments): void
    {
        sleepWork(...$arguments);
    }

    public function made(string $path, int $ms): void
    {
        new class ($path, $ms) {
            public function __construct(string $path, int $ms)
            {
                sleepWork($path, $ms);
            }
        };
    }

    public function caught(string $path, int $ms): void
    {
        try {
            throw new Exception("no");
        } catch (Exception) {
            sleepWork($path, $ms);
        } finally {
            $ms++;
        }
    }

    public function read(string $path, int $ms): void
    {
        [$from, $to] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        stream_set_timeout($from, 0, $ms * 1000);
        stack($path); fread($from, 1);
    }

    public function fiber(string $path, int $ms): void
    {
        (new Fiber(fn () => sleepWork($path, $ms)))->start();
    }

    public function spin(string $path, int $ms): int
    {
        stack($path);
        for ($n = 0, $till = hrtime(true) + $ms * 1000000; hrtime(true) < $till; $n++);
        return $n;
    }
}

function answer(string $path): void
{
    [, $what, $ms] = explode("/", $path);
    $shop = new Shop();
    match ($what) {
        "sleep" => sleepWork($path, (int) $ms),
        "letters" => $shop->café($path, (int) $ms),
        "class" => Shop::ofClass($path, (int) $ms),
        "missing" => $shop->unknown($path, (int) $ms),
        "recursion" => $shop->deep($path, (int) $ms, 10000),
        default => $shop->$what($path, (int) $ms),
    };
}

// Of a server that calls this file for each request (FPM), or a server of its own.
if (PHP_SAPI !== "cli") {
    answer($_SERVER["REQUEST_URI"]);
    echo "ok";
} else {
    $listener = stream_socket_server("tcp://127.0.0.1:$argv[1]");
    while (true) {
        $connection = @stream_socket_accept($listener, 3600);
        if ($connection && ($request = fgets($connection))) {
            while (($line = fgets($connection)) && $line !== "\r\n");
            answer(explode(" ", $request)[1]);
            fwrite($connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
        $connection && fclose($connection);
    }
}
