using System;
using System.Collections.Generic;
using System.IO;
using System.Net;
using System.Net.Http;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

// A service of a shape, in C# 7 for .NET Core; README.md has the environment.
//
// HOW says who makes the calls. `pool`: a blocking thread per caller's connection gives each to the thread pool of .NET, which has WORKERS
// threads, and waits. `async`: a task per caller's connection awaits each call of the HttpClient that all share; `async-fanout`: all at once.
static class Service
{
    static readonly string Name = Env("SERVICE"), How = Env("HOW");
    static readonly IPEndPoint Listen = Address(Env("LISTEN"));
    static readonly List<IPEndPoint> Upstreams = new List<IPEndPoint>();
    static readonly HttpClient Client = new HttpClient();
    static readonly FileStream Truth = new FileStream(Path.Combine(Env("GROUND_TRUTH_DIR"), Name + ".jsonl"), FileMode.Append, FileAccess.Write, FileShare.ReadWrite, 1);
    [ThreadStatic] static Dictionary<int, NetworkStream> own; // connections of a worker

    struct Todo
    {
        public int Upstream, Load;
        public string In;
    }

    static string Env(string name) => Environment.GetEnvironmentVariable(name) ?? "";

    static IPEndPoint Address(string text)
    {
        var parts = text.Split(':');
        return new IPEndPoint(IPAddress.Parse(parts[0]), int.Parse(parts[1]));
    }

    static long Now() => (DateTime.UtcNow.Ticks - 621355968000000000L) * 100;

    // One line in one write: nothing is lost when the process is ended.
    static void Note(string kind, string path, string more, int port, long start, int status)
    {
        var line = Encoding.ASCII.GetBytes(
            $"{{\"service\":\"{Name}\",\"kind\":\"{kind}\",\"target\":\"{path}\",{more}\"port\":{port},\"start\":{start},\"end\":{Now()},\"status\":{status}}}\n");
        lock (Truth)
        {
            Truth.Write(line, 0, line.Length);
            Truth.Flush();
        }
    }

    // Random numbers for cryptography would need OpenSSL 1.1; the first of these are as random.
    static string NewPath(int load)
    {
        return $"/work/{load}/{Guid.NewGuid().ToString("N").Substring(0, 12)}";
    }

    // What a request makes its service call, by its path alone.
    static List<Todo> Calls(string path)
    {
        int load = int.Parse(path.Split('/')[2]);
        var all = new List<Todo>();
        for (int u = 0; u < Upstreams.Count; u++)
            for (int i = 0; i <= (load >> u & 1); i++)
                all.Add(new Todo { Upstream = u, Load = (load + i + 1) % 4, In = path });
        return all;
    }

    static bool Called(Todo todo, string path, long start, int status)
    {
        Note("client", path, $"\"in\":\"{todo.In}\",", Upstreams[todo.Upstream].Port, start, status);
        return status == 200;
    }

    // First line of the next message, or null at the end; answers have a body of two bytes, requests none.
    static string FirstLine(byte[] buffer, int length)
    {
        var text = Encoding.ASCII.GetString(buffer, 0, length);
        int head = text.IndexOf("\r\n\r\n", StringComparison.Ordinal);
        if (head < 0 || (text.StartsWith("HTTP/", StringComparison.Ordinal) && length < head + 6))
            return null;
        return text.Substring(0, text.IndexOf('\r'));
    }

    static string Message(NetworkStream stream, byte[] buffer)
    {
        for (int length = 0, n; (n = stream.Read(buffer, length, buffer.Length - length)) > 0;)
            if (FirstLine(buffer, length += n) is string line)
                return line;
        return null;
    }

    static async Task<string> MessageAsync(NetworkStream stream, byte[] buffer)
    {
        for (int length = 0, n; (n = await stream.ReadAsync(buffer, length, buffer.Length - length)) > 0;)
            if (FirstLine(buffer, length += n) is string line)
                return line;
        return null;
    }

    static NetworkStream Connected(Socket socket)
    {
        socket.NoDelay = true;
        return new NetworkStream(socket, true);
    }

    static bool CallByWorker(Todo todo)
    {
        own = own ?? new Dictionary<int, NetworkStream>();
        if (!own.TryGetValue(todo.Upstream, out var stream))
        {
            var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            socket.Connect(Upstreams[todo.Upstream]);
            own[todo.Upstream] = stream = Connected(socket);
        }
        string path = NewPath(todo.Load);
        long start = Now();
        var request = Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: shapes\r\n\r\n");
        stream.Write(request, 0, request.Length);
        string line = Message(stream, new byte[1024]) ?? throw new IOException("no answer");
        return Called(todo, path, start, int.Parse(line.Split(' ')[1]));
    }

    static async Task<bool> CallAsync(Todo todo)
    {
        string path = NewPath(todo.Load);
        long start = Now();
        using (var answer = await Client.GetAsync($"http://{Upstreams[todo.Upstream]}{path}"))
            return Called(todo, path, start, (int)answer.StatusCode);
    }

    static async Task<bool> WorkAsync(string path)
    {
        bool good = true;
        var answers = new List<Task<bool>>();
        foreach (var todo in Calls(path))
        {
            var call = CallAsync(todo);
            if (How == "async")
                good &= await call;
            else
                answers.Add(call);
        }
        foreach (bool fine in await Task.WhenAll(answers))
            good &= fine;
        return good;
    }

    static byte[] Answer(string path, long start, bool good)
    {
        Note("server", path, "", Listen.Port, start, good ? 200 : 502);
        return Encoding.ASCII.GetBytes($"HTTP/1.1 {(good ? "200 OK" : "502 Bad Gateway")}\r\nContent-Length: 2\r\n\r\nok");
    }

    static async Task ServeAsync(Socket socket)
    {
        var buffer = new byte[1024];
        using (var stream = Connected(socket))
            while (await MessageAsync(stream, buffer) is string line)
            {
                long start = Now();
                string path = line.Split(' ')[1];
                var answer = Answer(path, start, await WorkAsync(path));
                await stream.WriteAsync(answer, 0, answer.Length);
            }
    }

    static void Serve(Socket socket)
    {
        var buffer = new byte[1024];
        using (var stream = Connected(socket))
            while (Message(stream, buffer) is string line)
            {
                long start = Now();
                string path = line.Split(' ')[1];
                bool good = true;
                foreach (var todo in Calls(path))
                    good &= Task.Run(() => CallByWorker(todo)).GetAwaiter().GetResult();
                var answer = Answer(path, start, good);
                stream.Write(answer, 0, answer.Length);
            }
    }

    static void Main()
    {
        foreach (var text in Env("CALLS").Split(new[] { ',' }, StringSplitOptions.RemoveEmptyEntries))
            Upstreams.Add(Address(text));
        int workers = int.Parse(Env("WORKERS"));
        if (How == "pool" && !(ThreadPool.SetMinThreads(workers, 8) && ThreadPool.SetMaxThreads(workers, 1000)))
            throw new InvalidOperationException($"a pool of {workers} threads");
        var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.ReuseAddress, true);
        listener.Bind(Listen);
        listener.Listen(1024);
        while (true)
        {
            var caller = listener.Accept();
            if (How == "pool")
                new Thread(() => Serve(caller)) { IsBackground = true }.Start();
            else
                Task.Run(() => ServeAsync(caller));
        }
    }
}
