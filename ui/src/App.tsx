import css from "./App.module.css";
import { MapPage } from "./pages/map/MapPage";
import { PacketsPage } from "./pages/packets/PacketsPage";
import { SearchPage } from "./pages/search/SearchPage";
import { StatusPage } from "./pages/status/StatusPage";
import { TracePage } from "./pages/trace/TracePage";
import { Notice } from "./parts/Notice";
import { Link } from "./routing/Link";
import { useUrl } from "./routing/url";
import { useTheme } from "./theme";

const PAGES = [
  ["/", "Traces"],
  ["/map", "Map"],
  ["/packets", "Packets"],
  ["/status", "Status"],
] as const;

export function App() {
  const { path } = useUrl();
  const [theme, cycleTheme] = useTheme();
  const trace = /^\/trace\/([^/]+)\/?$/.exec(path)?.[1];
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#main">
        Skip to content
      </a>
      <header className={css.header}>
        <Link href="/" className={css.brand} aria-label="wirespan: search">
          <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
            <rect width="32" height="32" rx="7" />
            <path d="M6 10h20M10 16h12M15 22h8" />
          </svg>
          wirespan
        </Link>
        <nav aria-label="Pages">
          <ul className={css.nav}>
            {PAGES.map(([href, label]) => (
              <li key={href}>
                <Link href={href} aria-current={path === href || (href === "/" && trace) ? "page" : undefined}>
                  {label}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <button type="button" className={css.theme} onClick={cycleTheme} title="Theme: system, dark, light">
          <span aria-hidden="true">{{ system: "◐", dark: "●", light: "○" }[theme]}</span> {theme}
          <span className="visually-hidden"> theme, change</span>
        </button>
      </header>
      <main id="main" className={css.main} tabIndex={-1}>
        {trace ? <TracePage key={trace} id={decodeURIComponent(trace)} /> : <Page path={path} />}
      </main>
    </div>
  );
}

function Page({ path }: { path: string }) {
  switch (path) {
    case "/":
      return <SearchPage />;
    case "/map":
      return <MapPage />;
    case "/packets":
      return <PacketsPage />;
    case "/status":
      return <StatusPage />;
    default:
      return (
        <Notice title="There is no such page">
          <Link href="/">Search for traces</Link>
        </Notice>
      );
  }
}
