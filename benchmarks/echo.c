// A server that does nothing: it answers each PING of redis-benchmark, so its rate is what the generator and the kernel leave to any server.
//
//   gcc -O2 benchmarks/echo.c -luring -o echo        (Debian: liburing-dev)
//   ./echo PORT epoll    one epoll_wait a round, one recv and one send a connection, as Quartet and Redis do
//   ./echo PORT sends    the same, with the sends of a round in one call of io_uring
//   ./echo PORT ring     io_uring for all: connections and requests arrive by themselves, one call a round
//   redis-benchmark -p PORT -t ping_mbulk -c 50 -P 1
//
// Stops at SIGTERM. Listens on loopback only.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, BUFFER_BYTES = 16384, BUFFERS = 1024, LINES_OF_A_PING = 3 };
enum { ACCEPTED = 1, RECEIVED, SENT };

typedef struct {
    int lines;
    int bytes;
    char replies[BUFFER_BYTES];
} Connection;

static Connection connections[CONNECTIONS_MAX];
static struct io_uring ring;

static void check(int failed, const char *what) {
    if (failed) {
        perror(what);
        exit(1);
    }
}

static int listen_at(int port) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(bind(listener, (void *)&address, sizeof address), "bind");
    check(listen(listener, CONNECTIONS_MAX), "listen");
    return listener;
}

static void begin(int socket) {
    int one = 1;
    check(socket >= CONNECTIONS_MAX, "too many connections");
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connections[socket].lines = 0;
}

// Adds a reply for each request that is whole. A pipeline that does not fit is not what this is for.
static void answer(Connection *connection, const char *input, int bytes) {
    static const char pong[] = "+PONG\r\n";
    connection->bytes = 0;
    for (int i = 0; i < bytes; i++) {
        if (input[i] == '\n' && ++connection->lines == LINES_OF_A_PING) {
            memcpy(connection->replies + connection->bytes, pong, sizeof pong - 1);
            connection->bytes += sizeof pong - 1;
            connection->lines = 0;
        }
    }
}

static struct io_uring_sqe *entry_of_ring(void) {
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
    check(!entry, "the ring is full");
    return entry;
}

static void mark(struct io_uring_sqe *entry, int kind, int socket) {
    io_uring_sqe_set_data64(entry, (unsigned long long)kind << 32 | (unsigned)socket);
}

static void send_by_ring(int socket) {
    struct io_uring_sqe *entry = entry_of_ring();
    io_uring_prep_send(entry, socket, connections[socket].replies, connections[socket].bytes, MSG_NOSIGNAL);
    io_uring_sqe_set_flags(entry, IOSQE_CQE_SKIP_SUCCESS);
    mark(entry, SENT, socket);
}

static void serve_by_epoll(int listener, int sends_by_ring) {
    static char input[BUFFER_BYTES / 2];
    int poll = epoll_create1(0), answered[CONNECTIONS_MAX];
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[CONNECTIONS_MAX];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(poll, events, CONNECTIONS_MAX, -1), count = 0;
        for (int i = 0; i < ready; i++) {
            int socket = events[i].data.fd;
            if (socket == listener) {
                event.data.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                begin(event.data.fd);
                epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
                continue;
            }
            int bytes = recv(socket, input, sizeof input, 0);
            if (bytes <= 0) {
                close(socket);
                continue;
            }
            answer(&connections[socket], input, bytes);
            answered[count++] = socket;
        }
        for (int i = 0; i < count; i++) {
            if (sends_by_ring)
                send_by_ring(answered[i]);
            else
                send(answered[i], connections[answered[i]].replies, connections[answered[i]].bytes, MSG_NOSIGNAL);
        }
        if (sends_by_ring && count)
            io_uring_submit(&ring);
    }
}

static void receive(int socket) {
    struct io_uring_sqe *entry = entry_of_ring();
    io_uring_prep_recv_multishot(entry, socket, NULL, 0, 0);
    io_uring_sqe_set_flags(entry, IOSQE_BUFFER_SELECT);
    mark(entry, RECEIVED, socket);
}

static void serve_by_ring(int listener) {
    static char memory[BUFFERS][BUFFER_BYTES / 2];
    struct io_uring_buf_ring *buffers;
    check(posix_memalign((void **)&buffers, 4096, BUFFERS * sizeof(struct io_uring_buf)), "memory");
    struct io_uring_buf_reg region = {.ring_addr = (unsigned long)buffers, .ring_entries = BUFFERS};
    check(io_uring_register_buf_ring(&ring, &region, 0), "buffers");
    io_uring_buf_ring_init(buffers);
    for (int i = 0; i < BUFFERS; i++)
        io_uring_buf_ring_add(buffers, memory[i], sizeof memory[i], i, io_uring_buf_ring_mask(BUFFERS), i);
    io_uring_buf_ring_advance(buffers, BUFFERS);
    struct io_uring_sqe *entry = entry_of_ring();
    io_uring_prep_multishot_accept(entry, listener, NULL, NULL, 0);
    mark(entry, ACCEPTED, 0);
    for (;;) {
        io_uring_submit_and_wait(&ring, 1);
        struct io_uring_cqe *completion;
        unsigned head, count = 0;
        io_uring_for_each_cqe(&ring, head, completion) {
            int socket = completion->user_data & 0xffffffff, result = completion->res;
            count++;
            switch (completion->user_data >> 32) {
            case ACCEPTED:
                begin(result);
                receive(result);
                break;
            case RECEIVED:
                if (result > 0) {
                    int buffer = completion->flags >> IORING_CQE_BUFFER_SHIFT;
                    answer(&connections[socket], memory[buffer], result);
                    io_uring_buf_ring_add(buffers, memory[buffer], sizeof memory[buffer], buffer, io_uring_buf_ring_mask(BUFFERS), 0);
                    io_uring_buf_ring_advance(buffers, 1);
                    send_by_ring(socket);
                }
                if (!(completion->flags & IORING_CQE_F_MORE)) {
                    if (result > 0)
                        receive(socket);
                    else
                        close(socket);
                }
            }
        }
        io_uring_cq_advance(&ring, count);
    }
}

int main(int count, char **words) {
    check(count != 3, "echo PORT epoll|sends|ring");
    struct io_uring_params parameters = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    check(io_uring_queue_init_params(2 * CONNECTIONS_MAX, &ring, &parameters), "io_uring");
    int listener = listen_at(atoi(words[1]));
    if (strcmp(words[2], "ring") == 0)
        serve_by_ring(listener);
    serve_by_epoll(listener, strcmp(words[2], "sends") == 0);
}
