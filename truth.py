import sys,pathlib,collections
sys.path.insert(0,'/work/main/tests/apps/field')
import compare as c
D=pathlib.Path(sys.argv[1]); spans=c.read_spans(D/'spans.jsonl'); work=D/'work'
servers=[n for n in c.SERVERS if (work/n).exists() or (work/'truth'/f'{n}.jsonl').exists()]
serving={s.pid for s in spans.values() if c.serves_id(s)}
c.own(spans,work,servers,serving)
srv={}
for s in spans.values():
    if s.process and s.owner and c.serves_id(s): srv.setdefault((s.pid,s.owner),s.id)
with open(D/'truth.txt','w') as f:
    n=0
    for s in spans.values():
        if s.process and s.side!=c.check.SERVER and s.owner and (s.pid,s.owner) in srv:
            f.write(f"{s.id} {srv[s.pid,s.owner]}\n"); n+=1
print(n)
