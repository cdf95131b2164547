import { useEffect } from "react";
import { useFleet, usePacketOrder, usePackets } from "../../api/queries";
import type { PacketsView } from "../../api/types";
import { flowRows, lossRows } from "../../domain/loss";
import { number } from "../../domain/number";
import { Failure, Loading, Notice } from "../../parts/Notice";
import { Fleet } from "./Fleet";
import { Flows, Loss } from "./LossTables";
import css from "./PacketsPage.module.css";
import { ProgramForm } from "./ProgramForm";
import { RunState } from "./RunState";
import { Drops, Legs, legRows, Places } from "./Tables";

/** Packet programs: one runs at a time, and its tables change while it runs. */
export function PacketsPage() {
  const { data, error, refetch } = usePackets();
  // A server runs none itself; its agents may.
  const off = data?.state === "off";
  const fleet = useFleet(off);
  useEffect(() => {
    document.title = "Packets – wirespan";
  }, []);
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading what="packets" />;
  if (off && fleet.data) return <Fleet view={fleet.data} failure={fleet.error} />;
  if (off && fleet.isPending) return <Loading what="packets" />;
  if (off) return <Off />;
  return <Here view={data} />;
}

/** Programs of this process. */
function Here({ view }: { view: PacketsView }) {
  const { mutate, isPending, error } = usePacketOrder();
  const give = (program: string, done?: () => void) => mutate(program, { onSuccess: () => done?.() });
  return (
    <div className={css.page}>
      <h1>Packets</h1>
      <ProgramForm now={view} order={{ give, isPending, error }} />
      {view.state !== "idle" && <Shown view={view} />}
    </div>
  );
}

function Off() {
  return (
    <Notice title="No packet programs here">
      <p>
        A packet program tells where packets waited and where they were dropped. Let this page run them by starting
        wirespan on the machine of the packets with
      </p>
      <p>
        <code>wirespan up --packet-programs …</code>
      </p>
      <p>
        or run one in a terminal: <code>wirespan packet FILE.yaml</code>, or on the agents of this server:{" "}
        <code>wirespan packet FILE.yaml --fleet</code>
      </p>
    </Notice>
  );
}

function Shown({ view }: { view: PacketsView }) {
  const told = (
    <>
      <span>{number(view.sightings)} sightings</span>
      {view.journeys > 0 && <span>{number(view.journeys)} packets</span>}
      {view.resent > 0 && <span>{number(view.resent)} sent again</span>}
    </>
  );
  return (
    <>
      <RunState
        of={view}
        told={told}
        missing={view.lost > 0 && `${number(view.lost)} sightings lost`}
        late={view.journeys > 0 && "without the ways of the last 3 s"}
      />
      {view.notes.length > 0 && (
        <ul className={css.notes} aria-label="Notes">
          {view.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      {view.total && <Legs rows={legRows(view.legs, view.total)} />}
      {view.drops.length > 0 && <Drops of={[{ agent: "", drops: view.drops }]} />}
      {view.loss.length > 0 && <Loss rows={lossRows(view)} />}
      {view.flows.length > 0 && <Flows rows={flowRows(view)} leftOut={view.flows_left_out} />}
      {view.places.length > 0 && <Places of={[{ agent: "", places: view.places, elapsedMs: view.elapsed_ms }]} />}
    </>
  );
}
