/* Sends datagrams one by one, each by a call of a function with a name: marked ADDRESS PORT COUNT. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in to = { .sin_family = AF_INET };

__attribute__((noinline)) void send_one(int fd, int number)
{
	sendto(fd, &number, sizeof(number), 0, (struct sockaddr *)&to, sizeof(to));
}

int main(int argc, char **argv)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (argc < 4 || fd < 0 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		return 1;
	to.sin_port = htons(atoi(argv[2]));
	for (int n = 0; n < atoi(argv[3]); n++) {
		send_one(fd, n);
		usleep(20000);
	}
	return 0;
}
