<?php
// A service of a shape, in PHP behind PHP-FPM; README.md has the environment. The process that serves a request makes
// its calls, each on a connection of its own.

function now(): int
{
    [$us, $s] = explode(' ', microtime());
    return (int) $s * 1000000000 + (int) ($us * 1000000) * 1000;
}

// One line in one write: nothing is lost when the process is ended.
function note(string $kind, string $target, int $start, int $status, array $more): void
{
    $record = ['service' => getenv('SERVICE'), 'kind' => $kind, 'target' => $target, 'start' => $start, 'end' => now(),
        'status' => $status] + $more;
    $truth = fopen(getenv('GROUND_TRUTH_DIR') . '/' . getenv('SERVICE') . '.jsonl', 'a');
    fwrite($truth, json_encode($record, JSON_UNESCAPED_SLASHES) . "\n");
    fclose($truth);
}

function call(string $upstream, int $load, string $in): bool
{
    $path = "/work/$load/" . bin2hex(random_bytes(6));
    $start = now();
    $socket = stream_socket_client("tcp://$upstream");
    fwrite($socket, "GET $path HTTP/1.1\r\nHost: shapes\r\n\r\n");
    $status = (int) explode(' ', fgets($socket))[1];
    $length = 0;
    while (($line = fgets($socket)) !== "\r\n") {
        if (stripos($line, 'content-length:') === 0) {
            $length = (int) substr($line, 15);
        }
    }
    if ($length) {
        fread($socket, $length);
    }
    fclose($socket);
    note('client', $path, $start, $status, ['port' => (int) explode(':', $upstream)[1], 'in' => $in]);
    return $status === 200;
}

$start = now();
$path = $_SERVER['REQUEST_URI'];
$load = (int) explode('/', $path)[2];
$good = true;
foreach (explode(',', getenv('CALLS')) as $u => $upstream) {
    // What a request makes its service call, by its path alone.
    for ($i = 0; $i <= ($load >> $u & 1); $i++) {
        $good = call($upstream, ($load + $i + 1) % 4, $path) && $good;
    }
}
note('server', $path, $start, $good ? 200 : 502, ['port' => (int) explode(':', getenv('LISTEN'))[1]]);
http_response_code($good ? 200 : 502);
header('Content-Length: 2');
echo 'ok';
