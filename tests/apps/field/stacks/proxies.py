"""Proxies that a stack may have in front, each with its configuration."""

from stack import App


def nginx(config, **env):
    return App(["nginx", "-c", "{config}"], env, config=f"proxies/{config}", programs=("nginx",))


def haproxy(config):
    return App(["haproxy", "-db", "-f", "{config}"], config=f"proxies/{config}", programs=("haproxy",))


def envoy(config):
    command = ["{cache}/envoy/envoy/_bin/envoy", "-c", "{config}", "--use-dynamic-base-id", "-l", "warning"]
    return App(command, config=f"proxies/{config}", needs=("envoy/envoy/_bin/envoy",))


def caddy(config):
    command = ["{cache}/field_caddy", "run", "--adapter", "caddyfile", "--config", "{config}"]
    env = {"XDG_DATA_HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"}
    return App(command, env, config=f"proxies/{config}", needs=("field_caddy",))


NGINX, NGINX_TLS = nginx("nginx.conf"), nginx("nginx-tls.conf")
NGINX_FPM, NGINX_SLIM = nginx("nginx-fpm.conf", SCRIPT="index.php"), nginx("nginx-fpm.conf", SCRIPT="slim.php")
HAPROXY, HAPROXY_H2 = haproxy("haproxy.cfg"), haproxy("haproxy-h2.cfg")
ENVOY, ENVOY_H2 = envoy("envoy.yaml"), envoy("envoy-h2.yaml")
CADDY, CADDY_TLS, CADDY_H2 = caddy("caddy.conf"), caddy("caddy-tls.conf"), caddy("caddy-h2.conf")
