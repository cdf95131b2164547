"""PHP on FPM behind nginx, with packages of the system."""

import pathlib

from stack import THREADS, App, Stack
from stacks import proxies
from stacks.go import go

FPM = max(pathlib.Path("/usr/sbin").glob("php-fpm*"), default="php-fpm")
ROUTES = ("seq", "par", "tx", "nest", "later", "stream")


def fpm(**env):
    packages = ("php-fpm", "php-pgsql", "php-redis", "php-curl")
    return App([FPM, "-F", "-y", "{config}"], env, config="proxies/php-fpm.conf", packages=packages)


SLIM = fpm()
SLIM.packages += ("php-slim", "php-guzzlehttp-guzzle", "php-nrk-predis", "php-doctrine-dbal")

STACKS = {
    name: Stack(
        f"PHP on FPM behind nginx, PDO, phpredis, curl, {what}, in front of Go's gin",
        fpm(PERSISTENT=persistent),
        THREADS,
        routes=ROUTES,
        back=go("gin"),
        proxy=proxies.NGINX_FPM,
    )
    for name, what, persistent in (("php", "new connections", "off"), ("php-persistent", "kept connections", "on"))
}
STACKS["slim"] = Stack(
    "PHP: Slim on FPM behind nginx, Doctrine's DBAL, Predis, Guzzle, in front of Go's gin",
    SLIM,
    THREADS,
    routes=("seq", "par", "tx", "nest", "deep", "retry", "later"),
    back=go("gin"),
    proxy=proxies.NGINX_SLIM,
)
