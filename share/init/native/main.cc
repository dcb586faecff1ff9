// A function that speaks the AWS Lambda Runtime API: it asks for an invocation, answers it, and
// asks again. handle() is yours; the rest is HTTP over one connection to 127.0.0.1.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

// Gets the event as JSON; what it returns, JSON as well, is the answer. What it throws is an error
// of the function, which the caller sees.
std::string handle(const std::string& event) {
  return "{\"bytes\":" + std::to_string(event.size()) + ",\"event\":" + event + "}";
}

const std::string kInvocations = "/2018-06-01/runtime/invocation/";

int connect_to(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  const bool readable = colon != std::string::npos &&
                        inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) == 1;
  if (!readable) {
    throw std::runtime_error("AWS_LAMBDA_RUNTIME_API is '" + address + "', not ADDRESS:PORT");
  }
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  if (connection < 0 || connect(connection, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    throw std::runtime_error("connect to " + address + ": " + std::strerror(errno));
  }
  return connection;
}

struct Answer {
  std::string id;  // of the invocation
  std::string body;
};

std::string header(const std::string& head, const char* name) {
  const char* found = strcasestr(head.c_str(), (std::string("\r\n") + name + ": ").c_str());
  if (found == nullptr) return "";
  found = std::strchr(found, ' ') + 1;
  return std::string(found, std::strcspn(found, "\r"));
}

Answer exchange(int connection, const std::string& request) {
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t n = send(connection, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) throw std::runtime_error("the runtime API is gone");
    sent += static_cast<size_t>(n);
  }
  std::string answer;
  size_t body = std::string::npos;
  size_t length = 0;
  while (body == std::string::npos || answer.size() < body + length) {
    char piece[65536];
    const ssize_t n = recv(connection, piece, sizeof(piece), 0);
    if (n <= 0) throw std::runtime_error("the runtime API is gone");
    answer.append(piece, static_cast<size_t>(n));
    if (body != std::string::npos) continue;
    const size_t end = answer.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    body = end + 4;
    length = std::strtoul(header(answer.substr(0, body), "Content-Length").c_str(), nullptr, 10);
  }
  return {header(answer.substr(0, body), "Lambda-Runtime-Aws-Request-Id"),
          answer.substr(body, length)};
}

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: runtime\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

// As the text in a JSON string.
std::string quoted(const std::string& text) {
  std::string safe = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return safe + "\"";
}

}  // namespace

int main() {
  try {
    const char* address = std::getenv("AWS_LAMBDA_RUNTIME_API");
    if (address == nullptr)
      throw std::runtime_error("it is run by a worker: lambent deploy, lambent invoke");
    const int connection = connect_to(address);
    for (;;) {
      const Answer next =
          exchange(connection, "GET " + kInvocations + "next HTTP/1.1\r\nHost: runtime\r\n\r\n");
      std::string request;
      try {
        request = post(kInvocations + next.id + "/response", handle(next.body));
      } catch (const std::exception& error) {
        request =
            post(kInvocations + next.id + "/error",
                 "{\"errorType\":\"HandlerError\",\"errorMessage\":" + quoted(error.what()) + "}");
      }
      exchange(connection, request);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "@NAME@: %s\n", error.what());
    return 1;
  }
}
