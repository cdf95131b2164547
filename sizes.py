import json,sys
rows=[]
for l in open(sys.argv[1]):
    for g in json.loads(l)['resourceSpans']:
        for ss in g['scopeSpans']:
            for s in ss['spans']:
                a={x['key']:list(x['value'].values())[0] for x in s['attributes']}
                if 'socket' in s['name'] and a.get('wirespan.tap_side')=='client-process' and ('connection' in s['name'] or 'warm' in s['name']):
                    rows.append((int(s['startTimeUnixNano'])//1000, (int(s['endTimeUnixNano'])-int(s['startTimeUnixNano']))//1000, s['name'],a.get('http.response.body.size'),a.get('wirespan.tcp.request_seq'),a.get('wirespan.tcp.response_seq'),a.get('wirespan.status')))
rows.sort()
for r in rows[:4]+rows[-3:]: print(r)
