<?php
// Plain PHP on FPM: PDO, phpredis, curl. PERSISTENT=on keeps connections from one request to the next.
declare(strict_types=1);

[, $route, $id] = explode('/', parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
$leaf = getenv('LEAF_URL');
$back = getenv('BACK_URL');

function db(): PDO
{
    static $db;
    $at = parse_url(getenv('DATABASE_URL'));
    return $db ??= new PDO("pgsql:host={$at['host']};port={$at['port']};dbname=postgres", $at['user'], null, [
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_PERSISTENT => getenv('PERSISTENT') === 'on',
    ]);
}

function redis(): Redis
{
    static $redis;
    if (!$redis) {
        $redis = new Redis();
        $connect = getenv('PERSISTENT') === 'on' ? 'pconnect' : 'connect';
        $redis->$connect('127.0.0.1', (int) getenv('REDIS_PORT'));
    }
    return $redis;
}

function query(string $sql, array $values): PDOStatement
{
    $statement = db()->prepare($sql);
    $statement->execute($values);
    return $statement;
}

function handle(string $url): CurlHandle
{
    $curl = curl_init($url);
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_TIMEOUT => 30]);
    return $curl;
}

function fetch(string $url): string
{
    static $curl;
    $curl ??= handle($url);
    curl_setopt($curl, CURLOPT_URL, $url);
    return (string) curl_exec($curl);
}

function fetch_all(array $urls): array
{
    $multi = curl_multi_init();
    $handles = array_map('handle', $urls);
    foreach ($handles as $one) {
        curl_multi_add_handle($multi, $one);
    }
    do {
        curl_multi_exec($multi, $running);
        curl_multi_select($multi, 0.1);
    } while ($running);
    return array_map('curl_multi_getcontent', $handles);
}

function item(string $id): array
{
    return query('SELECT name, stock FROM items WHERE id = ?', [$id])->fetchAll();
}

$answer = ['id' => $id];
header('Content-Type: application/json');
switch ($route) {
    case 'seq':
        $answer['cached'] = redis()->get("item:$id");
        $answer['rows'] = item($id);
        $answer['price'] = fetch("$leaf/price/$id");
        redis()->setex("item:$id", 60, json_encode($answer));
        break;
    case 'par':
        $answer['cached'] = redis()->get("item:$id");
        $answer['rows'] = item($id);
        $answer['parts'] = fetch_all(["$leaf/price/$id", "$leaf/stock/$id"]);
        break;
    case 'tx':
        db()->beginTransaction();
        query('INSERT INTO orders (id, item) VALUES (?, ?)', [$id, 'book']);
        query("UPDATE orders SET state = 'paid' WHERE id = ?", [$id]);
        db()->commit();
        redis()->multi()->del("item:$id")->incr("sold:$id")->exec();
        $answer['leaf'] = fetch("$leaf/ship/$id");
        break;
    case 'nest':
        redis()->incr("seen:$id");
        $answer['parts'] = fetch_all(["$back/seq/$id", "$leaf/price/$id"]);
        break;
    case 'later':
        echo json_encode($answer);
        fastcgi_finish_request();
        query('UPDATE items SET stock = stock + 1 WHERE id = ?', [$id]);
        redis()->set("job:$id", 'done');
        fetch("$leaf/mail/$id");
        exit();
    case 'stream':
        foreach ([fn() => item($id), fn() => fetch("$leaf/price/$id"), fn() => redis()->get("item:$id")] as $part) {
            echo json_encode($part()), "\n";
            ob_get_level() && ob_flush();
            flush();
        }
        exit();
    default:
        http_response_code(404);
}
echo json_encode($answer);
