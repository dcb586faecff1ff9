#include "node/http_relay/session.h"

#include <algorithm>
#include <utility>

#include "node/http_relay/limits.h"

namespace lambent::http_relay {
namespace {

// Sockets that are asked for at once: a program that closes each connection needs one a request.
constexpr unsigned kSocketsAtOnce = 8;
constexpr size_t kFewSockets = 2;
constexpr Duration kSocketPause = milliseconds(100);
// Connections that rest, however many requests it is given at once.
constexpr size_t kMostIdle = 64;
// A program that ends closes its connections first.
constexpr Duration kEndTime = milliseconds(200);
// The same where that is the exception: an answer without a size ends with its connection.
constexpr Duration kUnsizedEndTime = milliseconds(50);

constexpr const char* kClientLeft = "Http.ClientLeft";

}  // namespace

Session::Session(loop::EventLoop& loop, Sockets sockets, SessionOptions options,
                 Callbacks callbacks)
    : loop_(loop),
      sockets_(std::move(sockets)),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      ready_(options_.ready),
      self_(std::make_shared<Session*>(this)) {
  if (!ready_) look();
}

Session::~Session() {
  *self_ = nullptr;
  loop_.cancel(look_timer_);
  loop_.cancel(reaper_);
  // A callback of one of them may be what ends this: they go in the next turn.
  struct Rest {
    std::unordered_map<InvocationId, Running> running;
    std::vector<Running> ended;
    std::vector<std::unique_ptr<Upstream>> closed;
    std::deque<std::unique_ptr<Upstream>> idle;
    std::unique_ptr<Upstream> looking;
  };
  auto rest = std::make_shared<Rest>();
  rest->running = std::move(running_);
  rest->ended = std::move(ended_);
  rest->closed = std::move(closed_);
  rest->idle = std::move(idle_);
  rest->looking = std::move(looking_);
  for (auto& [id, running] : rest->running) {
    running.passage.reset();
    if (running.upstream) running.upstream->set_events({});
  }
  for (auto& upstream : rest->idle) upstream->set_events({});
  if (rest->looking) rest->looking->set_events({});
  loop_.call_after(Duration::zero(), [rest] {});
}

// ---- Sockets

void Session::with_socket(std::function<void(OwnedFd)> then) {
  if (!spare_.empty()) {
    OwnedFd socket = std::move(spare_.back());
    spare_.pop_back();
    if (spare_.size() < kFewSockets) fetch_sockets();
    return then(std::move(socket));
  }
  waiting_.push_back(std::move(then));
  fetch_sockets();
}

void Session::fetch_sockets() {
  if (std::exchange(fetching_, true)) return;
  sockets_(kSocketsAtOnce, [self = self_](Result<std::vector<OwnedFd>> got) {
    Session* session = *self;
    if (session == nullptr) return;
    session->fetching_ = false;
    if (!got.ok()) return session->fetch_again();
    for (OwnedFd& socket : *got) session->spare_.push_back(std::move(socket));
    while (*self != nullptr && !session->waiting_.empty() && !session->spare_.empty()) {
      auto then = std::move(session->waiting_.front());
      session->waiting_.pop_front();
      session->with_socket(std::move(then));
    }
  });
}

void Session::fetch_again() {
  loop_.call_after(kSocketPause, [self = self_] {
    if (*self != nullptr && !(*self)->waiting_.empty()) (*self)->fetch_sockets();
  });
}

// ---- Until it is ready

void Session::look() {
  with_socket([this](OwnedFd socket) {
    looking_ = std::make_unique<Upstream>(loop_, std::move(socket));
    looking_->set_events({.on_connected =
                              [this](bool connected) {
                                if (!connected) return look_again(looking_->take_socket());
                                if (options_.readiness.empty()) return warm_up();
                                ask(options_.readiness, "lambent-readiness", [this](int status) {
                                  if (status < 200 || status >= 400) return look_again({});
                                  warm_up();
                                });
                              },
                          .on_readable = {},
                          .on_room = {}});
    looking_->connect(options_.port);
  });
}

// A socket that was refused is good for another try.
void Session::look_again(OwnedFd socket) {
  if (socket.valid()) spare_.push_back(std::move(socket));
  if (looking_) {
    looking_->set_events({});
    closed_.push_back(std::move(looking_));
  }
  look_timer_ = loop_.call_after(limits::kRelayReadyPeriod, [this] {
    closed_.clear();
    look();
  });
}

void Session::ask(const std::string& path, const char* agent, std::function<void(int)> then) {
  readiness_answer_ = std::make_unique<http::ResponseParser>(
      http::ResponseParser::Options{.max_head = limits::kRelayedHead.count});
  looking_->set_events({.on_connected = {},
                        .on_readable =
                            [this, then = std::move(then)] {
                              char buffer[4096];
                              const http::Transfer got = looking_->read(buffer);
                              if (got.kind == http::Transfer::Kind::kWaitsToRead) return;
                              http::ResponseParser& answer = *readiness_answer_;
                              bool whole = false;
                              if (got.kind == http::Transfer::Kind::kMoved) {
                                std::string_view bytes(buffer, got.bytes);
                                const auto fed = answer.feed(bytes);
                                answer.response().body.clear();
                                if (fed.ok() && !*fed) return;
                                whole = fed.ok();
                              } else {
                                whole = answer.finish();
                              }
                              if (!whole || !answer.keep_alive()) {
                                looking_->set_events({});
                                closed_.push_back(std::move(looking_));
                                reap_soon();
                              }
                              then(whole ? answer.response().status : 0);
                            },
                        .on_room = {}});
  looking_->write("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: " + agent +
                  "\r\n\r\n");
  looking_->watch_reads(true);
}

// ---- Before its first request

void Session::warm_up() {
  if (options_.warm_up.empty()) return become_ready();
  warm_up_began_ = loop_.clock().now();
  const auto request = [this] {
    ask(options_.warm_up, "lambent-warm-up", [this](int status) { warmed_up(status); });
  };
  if (looking_) return request();
  with_socket([this, request](OwnedFd socket) {
    looking_ = std::make_unique<Upstream>(loop_, std::move(socket));
    looking_->set_events({.on_connected =
                              [this, request](bool connected) {
                                if (connected) return request();
                                looking_->set_events({});
                                closed_.push_back(std::move(looking_));
                                reap_soon();
                                warmed_up(0);
                              },
                          .on_readable = {},
                          .on_room = {}});
    looking_->connect(options_.port);
  });
}

// Whatever it answered: what a request needs, the program does again when one comes.
void Session::warmed_up(int status) {
  const Duration took = loop_.clock().now() - warm_up_began_;
  if (callbacks_.on_warm) callbacks_.on_warm(status, took);
  become_ready();
}

void Session::become_ready() {
  ready_ = true;
  if (looking_) rest(std::move(looking_));
  callbacks_.on_ready();
}

// ---- Requests

void Session::give(InvocationId id, std::shared_ptr<RelayedRequest> request) {
  Running& running = running_[id];
  running.request = std::move(request);
  if (running.request->client_is_gone) {
    loop_.call_after(Duration::zero(), [self = self_, id] {
      if (*self != nullptr) (*self)->ended(id, {.error_type = kClientLeft});
    });
    return;
  }
  run(id);
}

void Session::run(InvocationId id) {
  Running& running = running_.at(id);
  running.reuses = !idle_.empty() && !running.repeats;
  if (!running.reuses) return connect(id);
  running.upstream = std::move(idle_.back());
  idle_.pop_back();
  begin(id);
}

void Session::connect(InvocationId id) {
  with_socket([this, id](OwnedFd socket) {
    const auto found = running_.find(id);
    if (found == running_.end()) return spare_.push_back(std::move(socket));
    Running& running = found->second;
    running.upstream = std::make_unique<Upstream>(loop_, std::move(socket));
    running.upstream->set_events(
        {.on_connected =
             [this, id](bool connected) {
               if (connected) return begin(id);
               ended(id, {.error_type = "Http.NotListening",
                          .message = "the program does not listen on port " +
                                     std::to_string(options_.port) + " any more",
                          .connection_is_lost = true});
             },
         .on_readable = {},
         .on_room = {}});
    running.upstream->connect(options_.port);
  });
}

void Session::begin(InvocationId id) {
  Running& running = running_.at(id);
  const bool is_over = running.request->client_is_gone || running.request->answered;
  if (is_over) return ended(id, {.error_type = kClientLeft});
  running.began = true;
  running.passage = std::make_unique<Passage>(
      running.request, [this, id](PassageEnd how) { ended(id, std::move(how)); });
  running.passage->begin(*running.upstream);
}

void Session::ended(InvocationId id, PassageEnd how) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  Running over = std::move(found->second);
  if (over.upstream) over.upstream->set_events({});
  const bool is_repeated = how.may_be_repeated && over.reuses && !over.request->client_is_gone;
  // If that is because the program has ended, its end says more, and comes in a moment.
  const bool may_be_its_end = !how.succeeded && how.connection_is_lost;
  if (is_repeated || may_be_its_end || how.may_be_cut_off) {
    Running& again = found->second;
    again = Running{.request = over.request, .repeats = true, .began = over.began && !is_repeated};
    ended_.push_back(std::move(over));
    reap_soon();
    const Duration wait = is_repeated ? Duration::zero() : kEndTime;
    loop_.call_after(how.may_be_cut_off ? kUnsizedEndTime : wait,
                     [self = self_, id, is_repeated, how = std::move(how)] {
                       Session* session = *self;
                       if (session == nullptr || !session->running_.contains(id)) return;
                       if (is_repeated) return session->run(id);
                       session->tell_end(id, how);
                     });
    return;
  }
  if (how.keeps_connection) rest(std::move(over.upstream));
  ended_.push_back(std::move(over));
  reap_soon();
  tell_end(id, std::move(how));
}

void Session::tell_end(InvocationId id, PassageEnd how) {
  if (how.may_be_cut_off) {
    RelayedRequest& request = *running_.at(id).request;
    http::StreamedExchange* client = request.responder.stream();
    if (client != nullptr && !request.client_is_gone) client->finish();
  }
  running_.erase(id);
  callbacks_.on_end(id, std::move(how));
}

void Session::abandon(InvocationId id) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  Running over = std::move(found->second);
  running_.erase(found);
  if (over.upstream) over.upstream->set_events({});
  over.passage.reset();
  over.upstream.reset();
}

std::vector<InvocationId> Session::take_unseen() {
  std::vector<InvocationId> unseen;
  for (const auto& [id, running] : running_) {
    if (!running.began) unseen.push_back(id);
  }
  for (const InvocationId id : unseen) running_.erase(id);
  return unseen;
}

void Session::reap_soon() {
  if (std::exchange(reaping_, true)) return;
  reaper_ = loop_.call_after(Duration::zero(), [this] {
    reaping_ = false;
    ended_.clear();
    closed_.clear();
  });
}

// One that says something now, or ends, serves no more.
void Session::rest(std::unique_ptr<Upstream> upstream) {
  if (idle_.size() >= std::min<size_t>(options_.concurrency, kMostIdle)) {
    upstream->set_events({});
    closed_.push_back(std::move(upstream));
    return reap_soon();
  }
  Upstream* resting = upstream.get();
  resting->set_events({.on_connected = {},
                       .on_readable =
                           [this, resting] {
                             const auto found = std::find_if(
                                 idle_.begin(), idle_.end(),
                                 [&](const auto& each) { return each.get() == resting; });
                             if (found == idle_.end()) return;
                             resting->set_events({});
                             resting->watch_reads(false);
                             closed_.push_back(std::move(*found));
                             idle_.erase(found);
                             reap_soon();
                           },
                       .on_room = {}});
  resting->watch_reads(true);
  idle_.push_back(std::move(upstream));
}

}  // namespace lambent::http_relay
