// Answers every request with a greeting, on the port that PORT names. Nothing in it knows of
// Lambent.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
  const char* port = getenv("PORT");
  const char* greeting = getenv("GREETING");
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port ? atoi(port) : 8080)};
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr*)&here, sizeof here) != 0 || listen(listener, 64) != 0) {
    perror("listen");
    return 1;
  }
  for (;;) {
    char request[8192], body[256], answer[512];
    int client = accept(listener, NULL, NULL);
    if (client < 0 || read(client, request, sizeof request) <= 0) continue;
    int size = snprintf(body, sizeof body, "%s from user %d of the image\n",
                        greeting ? greeting : "nothing", getuid());
    int length = snprintf(answer, sizeof answer,
                          "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: "
                          "%d\r\nConnection: close\r\n\r\n%s",
                          size, body);
    if (write(client, answer, length) != length) perror("write");
    close(client);
  }
}
