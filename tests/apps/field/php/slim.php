<?php
// Slim on FPM: Doctrine's DBAL, Predis, Guzzle with requests at once.
declare(strict_types=1);

use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;
use GuzzleHttp\Client;
use GuzzleHttp\Exception\ConnectException;
use GuzzleHttp\Pool;
use GuzzleHttp\Promise\Utils;
use GuzzleHttp\Psr7\Request;
use Predis\Client as Redis;
use Slim\App;

foreach (['Slim', 'GuzzleHttp', 'Predis', 'Doctrine/DBAL'] as $library) {
    require_once "/usr/share/php/$library/autoload.php";
}

$app = new App();
$services = $app->getContainer();
$services['db'] = function (): Connection {
    $at = parse_url(getenv('DATABASE_URL'));
    return DriverManager::getConnection([
        'driver' => 'pdo_pgsql',
        'host' => $at['host'],
        'port' => $at['port'],
        'user' => $at['user'],
        'dbname' => 'postgres',
    ]);
};
$services['redis'] = fn(): Redis => new Redis(['port' => getenv('REDIS_PORT')]);
$services['leaf'] = fn(): Client => new Client(['base_uri' => getenv('LEAF_URL'), 'timeout' => 30]);
$services['back'] = fn(): Client => new Client(['base_uri' => getenv('BACK_URL'), 'timeout' => 30]);
$services['item'] = fn($with) => fn(string $id): array => $with->db
    ->createQueryBuilder()
    ->select('name', 'stock')
    ->from('items')
    ->where('id = :id')
    ->setParameter('id', $id)
    ->fetchAllAssociative();

$app->get('/seq/{id}', function ($request, $response, array $args) {
    $id = $args['id'];
    $cached = $this->redis->get("item:$id");
    $rows = ($this->item)($id);
    $price = (string) $this->leaf->get("/price/$id")->getBody();
    $this->redis->setex("item:$id", 60, json_encode($rows));
    return $response->withJson(compact('id', 'cached', 'rows', 'price'));
});

// Promises of Guzzle: libcurl has both under way at once, while the thread asks the database.
$app->get('/par/{id}', function ($request, $response, array $args) {
    $id = $args['id'];
    $calls = [$this->leaf->getAsync("/price/$id"), $this->leaf->getAsync("/stock/$id")];
    $cached = $this->redis->get("item:$id");
    $rows = ($this->item)($id);
    $bodies = array_map(fn($answer) => (string) $answer->getBody(), Utils::unwrap($calls));
    return $response->withJson(compact('id', 'cached', 'rows', 'bodies'));
});

$app->get('/tx/{id}', function ($request, $response, array $args) {
    $id = $args['id'];
    $this->db->transactional(function (Connection $db) use ($id): void {
        $db->insert('orders', ['id' => $id, 'item' => 'book']);
        $db->update('orders', ['state' => 'paid'], ['id' => $id]);
    });
    $this->redis->pipeline(function ($pipe) use ($id): void {
        $pipe->del("item:$id");
        $pipe->incr("sold:$id");
    });
    $leaf = (string) $this->leaf->get("/ship/$id")->getBody();
    return $response->withJson(compact('id', 'leaf'));
});

$app->get('/nest/{id}', function ($request, $response, array $args) {
    $id = $args['id'];
    $seen = $this->redis->incr("seen:$id");
    $calls = ['back' => $this->back->getAsync("/seq/$id"), 'price' => $this->leaf->getAsync("/price/$id")];
    $bodies = array_map(fn($answer) => (string) $answer->getBody(), Utils::unwrap($calls));
    return $response->withJson(compact('id', 'seen', 'bodies'));
});

// Five calls, two at a time.
$app->get('/deep/{id}', function ($request, $response, array $args) {
    $id = $args['id'];
    $requests = function () use ($id): iterable {
        for ($i = 0; $i < 5; $i++) {
            yield new Request('GET', "/part$i/$id");
        }
    };
    $answers = Pool::batch($this->leaf, $requests(), ['concurrency' => 2]);
    $rows = ($this->item)($id);
    return $response->withJson(['id' => $id, 'parts' => count($answers), 'rows' => $rows]);
});

$app->get('/retry/{id}', function ($request, $response, array $args) {
    $id = $args['id'];
    foreach (['try0', 'try1'] as $attempt) {
        try {
            return $response->write((string) $this->leaf->get("/$attempt/$id", ['timeout' => 0.015])->getBody());
        } catch (ConnectException) {
            continue;
        }
    }
    return $response->write((string) $this->leaf->get("/last/$id")->getBody());
});

$app->get('/later/{id}', function ($request, $response, array $args) {
    $id = $args['id'];
    register_shutdown_function(function () use ($id): void {
        fastcgi_finish_request();
        $this->db->executeStatement('UPDATE items SET stock = stock + 1 WHERE id = ?', [$id]);
        $this->redis->set("job:$id", 'done');
        $this->leaf->get("/mail/$id");
    });
    return $response->withJson(['id' => $id]);
});

$app->run();
