import io.grpc.HandlerRegistry;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.ServerCallHandler;
import io.grpc.ServerMethodDefinition;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;

/** A gRPC server whose messages are bytes, on 127.0.0.1: `PORT`. `/shop.Orders/METHOD` does what its name says. */
public class Grpc extends HandlerRegistry {
    static final MethodDescriptor.Marshaller<byte[]> BYTES = new MethodDescriptor.Marshaller<>() {
        @Override
        public InputStream stream(byte[] value) {
            return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream stream) {
            try {
                return stream.readAllBytes();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    };

    static void unary(Status status, byte[] message, StreamObserver<byte[]> answers) {
        if (!status.isOk()) {
            answers.onError(status.asRuntimeException());
            return;
        }
        answers.onNext(message);
        answers.onCompleted();
    }

    static void list(byte[] message, StreamObserver<byte[]> answers) {
        for (int i = 0; i < 5; i++) {
            answers.onNext(message);
        }
        answers.onCompleted();
    }

    /** Each message is answered (`chat`), or the first one at the end. */
    static StreamObserver<byte[]> many(StreamObserver<byte[]> answers, boolean chat) {
        return new StreamObserver<>() {
            byte[] first;

            @Override
            public void onNext(byte[] message) {
                first = first == null ? message : first;
                if (chat) {
                    answers.onNext(message);
                }
            }

            @Override
            public void onError(Throwable error) {
            }

            @Override
            public void onCompleted() {
                if (!chat) {
                    answers.onNext(first);
                }
                answers.onCompleted();
            }
        };
    }

    static ServerMethodDefinition<byte[], byte[]> method(String name, MethodType type,
        ServerCallHandler<byte[], byte[]> handler) {
        return ServerMethodDefinition.create(MethodDescriptor.newBuilder(BYTES,
            BYTES).setType(type).setFullMethodName(name).build(), handler);
    }

    static ServerCallHandler<byte[], byte[]> answering(Status status) {
        return ServerCalls.asyncUnaryCall((message, answers) -> unary(status, message, answers));
    }

    @Override
    public ServerMethodDefinition<?, ?> lookupMethod(String name, String authority) {
        return switch (name) {
            case "shop.Orders/Echo" -> method(name, MethodType.UNARY, answering(Status.OK));
            case "shop.Orders/Missing" -> method(name, MethodType.UNARY, answering(Status.NOT_FOUND));
            case "shop.Orders/Broken" -> method(name, MethodType.UNARY, answering(Status.INTERNAL));
            case "shop.Orders/List" -> method(name, MethodType.SERVER_STREAMING,
                ServerCalls.asyncServerStreamingCall(Grpc::list));
            case "shop.Orders/Upload" -> method(name, MethodType.CLIENT_STREAMING,
                ServerCalls.asyncClientStreamingCall(a -> many(a, false)));
            case "shop.Orders/Chat" -> method(name, MethodType.BIDI_STREAMING,
                ServerCalls.asyncBidiStreamingCall(a -> many(a, true)));
            default -> null;
        };
    }

    public static void main(String[] args) throws Exception {
        var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0]));
        NettyServerBuilder.forAddress(address).fallbackHandlerRegistry(new Grpc()).build().start().awaitTermination();
    }
}
