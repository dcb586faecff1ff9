#include "node/cluster/cluster_node.h"

#include <algorithm>
#include <utility>

#include "core/domain/kernel_graph_service.h"
#include "core/domain/limits.h"
#include "core/domain/version_advice.h"
#include "core/http/forward_words.h"
#include "core/http/hop_by_hop.h"
#include "core/http/message.h"

namespace lambent::cluster {
namespace {

constexpr Duration kReportPeriod = seconds(1);
constexpr Duration kReportTimeout = seconds(1);
constexpr Duration kDrainTimeout = seconds(5);
// In which each node asks another one at least once.
constexpr Duration kToldTime = seconds(2);
// An own report is as old as this at most when a node is chosen, but for its load.
constexpr Duration kOwnReportAge = milliseconds(50);
// So many nodes are tried for one request.
constexpr unsigned kMostAttempts = 8;
// Bytes of what a node tells another: more than any part of a volume, a log or a list has.
constexpr uint64_t kMostTold = 32 * 1024 * 1024;

bool is_dropped(std::string_view name, bool is_whole) {
  // The worker's own credentials are for the node that was asked.
  return http::same_name(name, "Authorization") || http::same_name(name, "Expect") ||
         http::same_name(name, "X-Lambent-Tenant") ||
         (is_whole && http::same_name(name, "Content-Length"));
}

bool has_body(const http::Request& request) {
  return request.headers.contains("Transfer-Encoding") ||
         (request.headers.contains("Content-Length") &&
          request.headers.get("Content-Length") != "0");
}

Error node_lost(const std::string& node, const std::string& why) {
  return {ErrorCode::kUnavailable, "NodeLost: node '" + node +
                                       "' was lost while it had the request (" + why + "); " +
                                       std::string(http::kMayHaveRun) +
                                       ". Send it again if running twice does no harm: others go "
                                       "to other nodes"};
}

// Whether any node may run it that has what it takes.
bool runs_anywhere(http::Destination destination) {
  return destination == http::Destination::kAnyNode ||
         destination == http::Destination::kAnyNodeAndMore ||
         destination == http::Destination::kHereOrAnyNode;
}

bool changes_catalog(http::Destination destination) {
  return destination == http::Destination::kHome;
}

Result<NodeReport> report_in(const std::string& node, const std::string& own_version,
                             const Result<http::Response>& answer) {
  if (!answer.ok()) return answer.error();
  if (answer->status == 200) {
    auto report = parse_report(answer->body);
    const std::string advice =
        lambent::version_advice(own_version, node, version_in_report(answer->body));
    if (report.ok() || advice.empty()) return report;
    return Error{report.error().code, report.error().message + "; " + advice};
  }
  if (answer->status == 401 || answer->status == 403) {
    return Error{ErrorCode::kPermissionDenied, "it does not know this node's --cluster-key"};
  }
  return Error{ErrorCode::kUnavailable,
               "it answers " + std::to_string(answer->status) +
                   " to what nodes ask each other; is "
                   "it a node of a cluster, of a version that goes with this one?"};
}

bool needs_objects(const http::Request& request) {
  return !request.headers.get("X-Lambent-Needs").empty() ||
         !request.headers.get("X-Amz-Client-Context").empty();
}

bool is_qualified(const FunctionName& name) { return name.name.find(':') != std::string::npos; }

bool asks_around(http::Destination destination) {
  return destination == http::Destination::kWhoKnows ||
         destination == http::Destination::kAllWhoKnow;
}

// Whether another node may answer better: this one does not know it, or keeps nothing of the kind
// (such as a journal). What is wrong with the request is wrong everywhere, and a catalog that all
// share is away for all: asked one after the other, each would wait for it.
bool may_be_told_elsewhere(int status) { return status == 404 || status == 412 || status == 501; }

// Whether a node that does not answer may know more.
bool is_no_answer(const std::optional<http::Response>& known) {
  return !known || known->status == 412 || known->status == 429 || known->status >= 500;
}

// "b, c", of those that are `among`.
std::string names_of(const MemberTable& table, const std::vector<bool>& among) {
  std::string names;
  for (routing::NodeIndex index = 0; index < table.size(); ++index) {
    if (among[index]) names += (names.empty() ? "" : ", ") + table.name_of(index);
  }
  return names;
}

// Why no node that takes work has these GPUs; nothing: this one has, and tells what keeps it.
std::optional<Error> refusal_of(const MemberTable& table, const std::string& function,
                                const GpuRequest& needs) {
  const std::vector<routing::Serving> holding = table.holding(needs.gpus, needs.memory);
  if (holding[table.own_index()] == routing::Serving::kCan) return std::nullopt;
  const std::string away = names_of(table, routing::serving_nodes(holding));
  const std::string has = std::to_string(needs.gpus) + " GPU" + (needs.gpus == 1 ? "" : "s") +
                          " with " + to_string(needs.memory) + (needs.gpus == 1 ? "" : " each");
  if (away.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "no node of the cluster has the " + has + " that function '" + function +
                     "' takes: add such a node, or deploy the function with less (gpu.count, "
                     "gpu.memory)"};
  }
  return Error{ErrorCode::kUnavailable, "the nodes with the " + has + " that function '" +
                                            function + "' takes are lost or drained (" + away +
                                            "); try again later"};
}

// A node that could serve the function and becomes another program, which answers what is sent to
// it meanwhile.
std::optional<std::string> one_that_gives_way(MemberTable& table, const NodeFacts::Known& known,
                                              const routing::RouteRequest& request, Instant now) {
  const std::vector<bool> could =
      routing::serving_nodes(serving_of(table, known, request.function));
  for (routing::NodeIndex index = 0; index < table.size(); ++index) {
    const std::string& node = table.name_of(index);
    if (could[index] && table.may_be_silent(node, now)) return node;
  }
  return std::nullopt;
}

// Changes that only this node hears of would make a second catalog.
std::optional<Error> why_no_change(const MemberTable& table, const NameWatch& name, bool is_shared,
                                   bool has_copies) {
  if (!name.problem().empty()) {
    return Error{ErrorCode::kFailedPrecondition, "this node changes nothing: " + name.problem()};
  }
  const std::string first = table.beginner(false);
  const bool is_alone = table.home().empty();
  if (is_shared || !is_alone || first == table.self()) return std::nullopt;
  if (!first.empty()) {
    return Error{
        ErrorCode::kUnavailable,
        "the catalog is at node '" + first +
            "', from which this node does not hear: functions can be invoked, not changed"};
  }
  if (!has_copies) return std::nullopt;
  return Error{ErrorCode::kUnavailable,
               "this node was not told yet who else is in its cluster, so that a change would be "
               "of its copies only; try again, or start it without --cluster-key"};
}

// Of a graph that comes with its request this node knows only that it takes a GPU.
GpuRequest needs_of(const std::optional<NodeFacts::Known>& known, const FunctionName& name) {
  if (known) return known->needs;
  return {.memory = {}, .gpus = is_kept_graph(name) ? 1U : 0U};
}

// Whether this node takes work and has that.
bool can_run_here(const MemberTable& table, const GpuRequest& needs) {
  const routing::NodeIndex here = table.own_index();
  return table.node(here).takes_work && table.could_hold(here, needs.gpus, needs.memory);
}

// Of nodes that have lost these GPUs, where no other has them: a request waits there until they are
// back, here if this is one of them.
std::optional<routing::Route> route_to_lost(const MemberTable& table, const GpuRequest& needs) {
  const std::vector<routing::Serving> holding = table.holding(needs.gpus, needs.memory);
  const std::vector<bool> serving = routing::serving_nodes(holding);
  std::optional<routing::Route> found;
  for (routing::NodeIndex index = 0; index < table.size(); ++index) {
    const bool waits = serving[index] && holding[index] == routing::Serving::kLater &&
                       table.node(index).takes_work;
    if (waits && (!found || index == table.own_index())) found = routing::Route{index};
  }
  return found;
}

// Where a request goes. Nothing: no node takes work, as this one says in its own words. An error:
// no node that takes work has what it needs.
Result<std::optional<routing::Route>> route_of(const routing::Policy& policy,
                                               const routing::RouteRequest& request,
                                               const std::optional<NodeFacts::Known>& known,
                                               const FunctionName& name, const MemberTable& table) {
  const bool is_run = known && !known->steps.empty();
  const auto route = is_run ? routing::place_run(policy, request, known->steps, table.ring(), table)
                            : policy.choose(request, table.ring(), table);
  if (route || !known || known->needs.gpus == 0) return route;
  if (const auto waiting = route_to_lost(table, known->needs)) return waiting;
  if (const auto refusal = refusal_of(table, name.name, known->needs)) return *refusal;
  return route;
}

// The same of a pipeline, which only some nodes can serve. What is shown of one is this node's own,
// if this is one of them.
Result<std::optional<routing::Route>> route_of_pipeline(const routing::Policy& policy,
                                                        const routing::RouteRequest& request,
                                                        const http::ForwardCall& call,
                                                        const MemberTable& table) {
  const std::vector<bool> serving = routing::serving_nodes(table.serving(request.function));
  const routing::Route here{table.own_index()};
  if (serving[here.node] && call.request.method == "GET") return std::optional(here);
  const auto route = routing::place_among(policy, request, serving, table.ring(), table);
  if (route || serving[here.node]) return route;
  const std::string away = names_of(table, serving);
  if (away.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "no node of the cluster has the slices that pipeline '" + call.function.name +
                     "' takes: start one with --pipeline-slices"};
  }
  return Error{ErrorCode::kUnavailable, "the nodes that can serve pipeline '" + call.function.name +
                                            "' are lost or drained (" + away +
                                            "); try again later"};
}

}  // namespace

ClusterNode::ClusterNode(Dependencies dependencies, NodeCredentials credentials,
                         std::unique_ptr<routing::Policy> policy, NodeFacts facts)
    : uses_(std::move(dependencies)),
      credentials_(std::move(credentials)),
      policy_(std::move(policy)),
      facts_(std::move(facts)),
      table_(credentials_.node()),
      others_(table_, facts_, uses_.random, uses_.connector),
      name_(credentials_.node()),
      links_(uses_.loop, uses_.offload) {
  ticker_ = uses_.loop.call_after(Duration::zero(), [this] { tick(); });
}

ClusterNode::~ClusterNode() { uses_.loop.cancel(ticker_); }

// ---- Members

Result<void> ClusterNode::tell(ClusterTold told) {
  RETURN_IF_ERROR(table_.tell(told, uses_.loop.now()));
  tell_watchers();
  return {};
}

void ClusterNode::tell_watchers() {
  if (std::exchange(told_version_, table_.version()) == table_.version()) return;
  for (const MemberStatus& each : table_.members()) {
    uses_.log.info("cluster_member", {{"node", each.member.node},
                                      {"address", each.member.address},
                                      {"state", std::string(name_of(each.state))},
                                      {"problem", each.problem},
                                      {"home", each.is_home ? "yes" : "no"}});
  }
  for (const auto& watcher : watchers_) uses_.loop.call_after(Duration::zero(), watcher);
}

void ClusterNode::tick() {
  refresh_own_report();
  table_.expire(uses_.loop.now());
  for (const std::string& node : table_.others()) {
    if (std::find(asked_.begin(), asked_.end(), node) != asked_.end()) continue;
    asked_.push_back(node);
    table_.asked(node);
    inquire(node, {"/v1/cluster/report"}, kReportTimeout,
            [this, node](const Result<http::Response>& answer, LinkEnd::Kind how) {
              std::erase(asked_, node);
              auto report = report_in(node, table_.find(self())->report.version, answer);
              // The kernel takes connections for the program that is to come.
              const bool is_silent = !answer.ok() && how == LinkEnd::Kind::kLost;
              if (report.ok()) {
                if (report->node == node) {
                  if (facts_.heard) facts_.heard(*report);
                  table_.let_be_silent(node, uses_.loop.now() + report->silence);
                }
                table_.reported(node, *std::move(report));
              } else if (!is_silent || !table_.may_be_silent(node, uses_.loop.now())) {
                table_.missed(node, report.error().message);
                // A node that is cut off closes no connection.
                if (MemberTable::Entry* entry = table_.find(node);
                    entry != nullptr && entry->missed == kMissedReports) {
                  links_.drop(entry->endpoint);
                }
              }
              tell_watchers();
            });
  }
  const MemberTable::Entry& own = *table_.find(self());
  const bool is_listed = !own.member.address.empty() && table_.size() > 1;
  if (is_listed && name_.is_due()) {
    // Of a node that cannot reach itself so, nothing is known.
    ask(self(), {"/v1/cluster/report"}, kReportTimeout, [this](Result<http::Response> answer) {
      const auto report = report_in(self(), "", answer);
      if (!report.ok() || !name_.heard(*report, table_.find(self())->member.address)) return;
      const std::string& problem = name_.problem();
      if (!problem.empty()) uses_.log.error("node_name_taken", {{"error", problem}});
      table_.set_own_problem(problem);
      own_report_at_ = Instant::min();
      refresh_own_report();
      tell_watchers();
    });
  }
  tell_watchers();
  ticker_ = uses_.loop.call_after(kReportPeriod, [this] { tick(); });
}

void ClusterNode::refresh_own_report() {
  const Instant now = uses_.loop.now();
  // Those of a burst come within one report, and would all find this node as idle as the first did.
  if (own_report_at_ + kOwnReportAge > now && own_report_at_ != Instant::min()) {
    return table_.set_own_load(facts_.load());
  }
  own_report_at_ = now;
  table_.set_own_report(own_report());
}

NodeReport ClusterNode::own_report() const {
  NodeReport report = facts_.report();
  report.node = self();
  report.shares_objects = true;
  report.shares_versions = true;
  report.tells_not_begun = true;
  report.life = name_.life();
  report.takes_work = report.takes_work && !drained_ && name_.problem().empty();
  report.silence = silence_;
  return report;
}

void ClusterNode::drain(const std::string& node, bool drained,
                        std::function<void(Result<void>)> done) {
  if (node != self()) {
    const std::string target = "/v1/cluster/nodes/" + node + (drained ? "/drain" : "/undrain");
    const auto answered = [done](const Result<http::Response>& answer) {
      if (!answer.ok()) return done(answer.error());
      if (answer->status == 200) return done({});
      done(Error{ErrorCode::kUnavailable, "the node answered " + std::to_string(answer->status)});
    };
    return ask(node, {.target = target, .method = "POST"}, kDrainTimeout, answered);
  }
  drained_ = drained;
  own_report_at_ = Instant::min();
  refresh_own_report();
  tell_watchers();
  done({});
}

void ClusterNode::give_way(Duration silence, std::function<void()> told) {
  drained_ = true;
  silence_ = silence;
  own_report_at_ = Instant::min();
  refresh_own_report();
  tell_watchers();
  const bool is_alone = table_.size() == 1;
  uses_.loop.call_after(is_alone ? Duration::zero() : kToldTime, std::move(told));
}

// ---- Requests between nodes

Result<std::optional<http::ForwardService::Forwarded>> ClusterNode::forwarded_by(
    const http::Request& request) const {
  return credentials_.verify(request);
}

void ClusterNode::take(http::Request& request) {
  ++counts_.received;
  NodeCredentials::strip(request);
}

void ClusterNode::ask(const std::string& node, Question question, Duration timeout,
                      std::function<void(Result<http::Response>)> done) {
  inquire(node, std::move(question), timeout,
          [done = std::move(done)](Result<http::Response> answer, LinkEnd::Kind) {
            done(std::move(answer));
          });
}

void ClusterNode::inquire(const std::string& node, Question question, Duration timeout,
                          std::function<void(Result<http::Response>, LinkEnd::Kind)> done) {
  MemberTable::Entry* entry = table_.find(node);
  if (entry == nullptr) {
    return done(Error{ErrorCode::kNotFound, "there is no node '" + node + "'"},
                LinkEnd::Kind::kNotSent);
  }
  http::Endpoint endpoint = entry->endpoint;
  endpoint.encrypt = uses_.connector;
  http::Request head;
  head.method = std::move(question.method);
  head.target = std::move(question.target);
  if (head.method != "GET") head.headers.add("Content-Length", "0");
  if (question.only_here) head.headers.add(std::string(http::kOnlyHere), "true");
  head.headers.add("Host", endpoint.host + ":" + std::to_string(endpoint.port));
  credentials_.sign(head,
                    {.node = {}, .tenant = question.tenant, .scopes = Scopes::all(), .token = {}});
  // Told once, by the answer or by the end of the connection.
  auto told = std::make_shared<bool>(false);
  auto client = std::make_shared<http::Responder>(
      responder_to([told, done](std::optional<http::Response> answer) {
        if (!answer || std::exchange(*told, true)) return;
        done(*std::move(answer), LinkEnd::Kind::kAnswered);
      }));
  auto exchange = std::make_shared<WholeExchange>(std::make_shared<std::string>(), client,
                                                  WholeExchange::Options{.most_bytes = kMostTold});
  auto request =
      std::make_shared<http_relay::RelayedRequest>(std::move(head), http::Responder(exchange));
  links_.send(endpoint, std::move(request), timeout, [told, done, node](const LinkEnd& how) {
    if (std::exchange(*told, true)) return;
    done(Error{ErrorCode::kUnavailable, "node '" + node + "' does not answer: " + how.why},
         how.kind);
  });
}

bool ClusterNode::begins_schedules() const {
  return table_.beginner(shares_catalog_) == self() && name_.problem().empty();
}

bool ClusterNode::is_lost(const std::string& node) {
  const MemberTable::Entry* entry = table_.find(node);
  return entry == nullptr || entry->state == MemberState::kLost;
}

std::vector<http::ForwardService::Peer> ClusterNode::peers() const {
  std::vector<Peer> peers;
  for (const MemberStatus& each : table_.members()) {
    if (!each.is_self) peers.push_back({each.member.node, each.state != MemberState::kLost});
  }
  return peers;
}

std::function<void(http::Request&)> ClusterNode::signer(std::string tenant) const {
  return [credentials = credentials_, tenant = std::move(tenant)](http::Request& request) {
    credentials.sign(request, {.node = {}, .tenant = tenant, .scopes = Scopes::all(), .token = {}});
  };
}

void ClusterNode::catch_up(const FunctionName& function, std::function<void(Result<void>)> then) {
  if (!replica_.catch_up || (!is_replica() && !home().empty())) return then({});
  replica_.catch_up(function, std::move(then));
}

// ---- Which node answers

void ClusterNode::route(http::ForwardCall call) {
  auto forward = std::make_shared<Forward>(std::move(call));
  forward->client = std::make_shared<http::Responder>(std::move(forward->call.responder));
  // One that is signed came whole, also where it could have streamed.
  if (forward->client->stream() == nullptr || !forward->call.request.body.empty()) {
    forward->body = std::make_shared<const std::string>(std::move(forward->call.request.body));
  }
  const std::string_view key = forward->call.request.headers.get("amz-sdk-invocation-id");
  if (!key.empty() && key.size() <= limits::kIdempotencyKeyLength) {
    forward->repeat_key =
        forward->call.tenant + "/" + forward->call.function.name + "/" + std::string(key);
  }
  const bool needs_function = !forward->call.function.name.empty() && !forward->call.creates &&
                              !asks_around(forward->call.destination);
  if (!needs_function || facts_.find(forward->call.function)) return choose(forward);
  // Deployed a moment ago, perhaps, through another node.
  catch_up(forward->call.function, [this, forward](Result<void> caught_up) {
    if (!caught_up.ok()) forward->unsure = std::move(caught_up).error();
    choose(forward);
  });
}

void ClusterNode::choose(const ForwardPtr& forward) {
  const auto destination = forward->call.destination;
  const bool changes =
      changes_catalog(destination) ||
      (destination == http::Destination::kHomeOnly && forward->call.request.method != "GET");
  if (changes) {
    const bool has_copies = replica_.has_copies && replica_.has_copies();
    const auto why = why_no_change(table_, name_, shares_catalog_, has_copies);
    if (why) return forward->refuse(*why);
  }
  const std::string home = table_.home();
  const FunctionName& name = forward->call.function;
  switch (forward->call.destination) {
    case http::Destination::kHome:
      if (shares_catalog_ && (is_lost(home) || table_.may_be_silent(home, uses_.loop.now()))) {
        return answer_here(forward);
      }
      [[fallthrough]];
    case http::Destination::kHomeOrHere:
    case http::Destination::kHomeOnly:
      if (home.empty() || home == self()) return answer_here(forward);
      return send_to(forward, home);
    case http::Destination::kWhoKnows:
    case http::Destination::kAllWhoKnow:
      return ask_who_knows(forward);
    case http::Destination::kHereOrAnyNode:
      refresh_own_report();
      if (can_run_here(table_, needs_of(facts_.find(name), name))) return answer_here(forward);
      [[fallthrough]];
    case http::Destination::kAnyNode:
    case http::Destination::kAnyNodeAndMore:
      return choose_any(forward);
  }
}

void ClusterNode::choose_any(const ForwardPtr& forward) {
  if (table_.size() == 1) return answer_here(forward);
  const FunctionName& name = forward->call.function;
  const auto known = facts_.find(name);
  // The home may have what this node cannot tell of, and knows which versions there are.
  const bool asks_home = !known && (is_qualified(name) || forward->unsure);
  if (asks_home && !is_lost(table_.home())) return go_home(forward);
  const std::string* first = repeats_.find(forward->repeat_key);
  if (first != nullptr && *first != forward->refused_by) {
    const MemberTable::Entry* entry = table_.find(*first);
    if (*first == self()) return answer_here(forward);
    // One that gets no more work may still have the first.
    const bool answers = entry != nullptr && (entry->state == MemberState::kUp ||
                                              entry->state == MemberState::kDraining);
    if (answers) return send_to(forward, std::string(*first));
  }
  // What this node could not have a copy of, such as for want of GPUs, the home may have.
  if (!known && is_replica() && !is_kept_graph(name) && !is_lost(table_.home())) {
    return go_home(forward);
  }
  const GpuRequest needs = needs_of(known, name);
  refresh_own_report();
  const routing::RouteRequest request{
      .function = hash_of(forward->call.tenant, known ? known->record : name),
      .memory = needs.memory,
      .gpus = needs.gpus,
      .entry = table_.own_index(),
      .draw = uses_.random.next()};
  const auto chosen = known && known->is_pipeline
                          ? route_of_pipeline(*policy_, request, forward->call, table_)
                          : route_of(*policy_, request, known, name, table_);
  if (!chosen.ok()) {
    const auto waits_for = one_that_gives_way(table_, *known, request, uses_.loop.now());
    if (!waits_for) return forward->refuse(chosen.error());
    repeats_.remember(forward->repeat_key, *waits_for);
    return send_to(forward, *waits_for);
  }
  const std::optional<routing::Route>& route = *chosen;
  // This one takes no work either, and says so in its own words.
  if (!route || route->node == table_.own_index()) {
    repeats_.remember(forward->repeat_key, self());
    return answer_here(forward);
  }
  const std::string node = table_.name_of(route->node);
  // An older program there would look for them among its own.
  const NodeReport& there = table_.find(node)->report;
  if ((needs_objects(forward->call.request) && !there.shares_objects) ||
      (is_qualified(name) && !there.shares_versions)) {
    repeats_.remember(forward->repeat_key, self());
    return answer_here(forward);
  }
  repeats_.remember(forward->repeat_key, node);
  send_to(forward, node);
}

void ClusterNode::answer_here(const ForwardPtr& forward) {
  // "There is none" would be a guess.
  const bool guesses = forward->unsure && !facts_.find(forward->call.function);
  if (guesses) return forward->refuse(*forward->unsure);
  ++counts_.here;
  http::Request request = forward->call.request;
  if (forward->body) request.body = *forward->body;
  forward->call.here(std::move(request), forward->streamed ? forward->streamed->hand_on()
                                                           : std::move(*forward->client));
}

void ClusterNode::go_home(const ForwardPtr& forward) {
  forward->was_home = true;
  const std::string home = table_.home();
  if (home.empty() || home == self()) return answer_here(forward);
  send_to(forward, home);
}

void ClusterNode::Forward::refuse(const Error& error) {
  http::Response response = call.response_of(error);
  const bool says_when = response.headers.contains("Retry-After");
  if (response.status == 503 && !says_when) response.headers.add("Retry-After", "1");
  client->send(std::move(response));
}

// ---- What one of the nodes has

void ClusterNode::ask_who_knows(const ForwardPtr& forward) {
  forward->left = table_.others();
  http::Request request = forward->call.request;
  if (forward->body) request.body = *forward->body;
  forward->call.here(std::move(request), responder_to([this, forward](auto answer) {
                       if (!answer) return;
                       ask_next(forward, *std::move(answer));
                     }));
}

void ClusterNode::ask_next(const ForwardPtr& forward, http::Response unknown) {
  const auto is_up = [this](const std::string& node) {
    const MemberTable::Entry* entry = table_.find(node);
    return entry != nullptr && entry->state != MemberState::kLost;
  };
  while (!forward->left.empty() && !is_up(forward->left.back())) {
    forward->silent.push_back(forward->left.back());
    forward->left.pop_back();
  }
  const bool asks_all = forward->call.destination == http::Destination::kAllWhoKnow;
  const bool is_told = !asks_all && !may_be_told_elsewhere(unknown.status);
  if (is_told) return forward->client->send(std::move(unknown));
  // Of all answers the first that is none of "unknown" counts.
  if (unknown.status != 404 && !forward->known) forward->known = unknown;
  const bool is_last = forward->left.empty();
  if (is_last && !asks_all && is_no_answer(forward->known) && !forward->silent.empty()) {
    return forward->refuse({ErrorCode::kUnavailable,
                            "no node that answers has it, and node '" + forward->silent.front() +
                                "', which may have it, does not answer; try again later"});
  }
  if (is_last) {
    return forward->client->send(forward->known ? *std::move(forward->known) : std::move(unknown));
  }
  const std::string node = forward->left.back();
  forward->left.pop_back();
  MemberTable::Entry& entry = *table_.find(node);
  http::Endpoint endpoint = entry.endpoint;
  endpoint.encrypt = uses_.connector;
  // Shared by the answer and the end of the connection, whichever comes first.
  auto kept = std::make_shared<http::Response>(std::move(unknown));
  auto told = std::make_shared<bool>(false);
  auto client = std::make_shared<http::Responder>(
      responder_to([this, forward, told](std::optional<http::Response> answer) {
        if (!answer || std::exchange(*told, true)) return;
        ask_next(forward, *std::move(answer));
      }));
  auto exchange = std::make_shared<WholeExchange>(forward->body, client);
  auto request = std::make_shared<http_relay::RelayedRequest>(request_for(*forward),
                                                              http::Responder(exchange));
  request->has_body = !forward->body->empty();
  links_.send(endpoint, std::move(request), seconds(5),
              [this, forward, told, kept, node](const LinkEnd&) {
                if (std::exchange(*told, true)) return;
                forward->silent.push_back(node);
                ask_next(forward, std::move(*kept));
              });
}

// ---- On the way

http::Request ClusterNode::request_for(const Forward& forward) const {
  const http::Request& original = forward.call.request;
  const bool is_whole = forward.body != nullptr;
  http::Request head;
  head.method = original.method;
  head.target = original.target;
  const http::Headers passed_on = http::end_to_end(original.headers);
  for (const auto& [name, value] : passed_on.fields()) {
    if (!is_dropped(name, is_whole)) head.headers.add(name, value);
  }
  if (is_whole && !forward.body->empty()) {
    head.headers.add("Content-Length", std::to_string(forward.body->size()));
  }
  if (!head.headers.contains("Host")) head.headers.add("Host", "localhost");
  credentials_.sign(head, {.node = {},
                           .tenant = forward.call.tenant,
                           .scopes = forward.call.principal.scopes,
                           .token = forward.call.principal.token});
  return head;
}

void ClusterNode::send_to(const ForwardPtr& forward, const std::string& node) {
  MemberTable::Entry* entry = table_.find(node);
  if (entry == nullptr) {
    return forward->refuse({ErrorCode::kUnavailable, "node '" + node + "' left the cluster"});
  }
  ++forward->attempts;
  forward->sent_at = uses_.loop.now();
  ++counts_.forwarded;
  ++entry->outstanding;
  http::Endpoint endpoint = entry->endpoint;
  endpoint.encrypt = uses_.connector;
  http::Request head = request_for(*forward);
  // Whole requests have an exchange of their own; what streams has its client's.
  std::shared_ptr<WholeExchange> exchange;
  std::shared_ptr<http_relay::RelayedRequest> request;
  if (forward->body) {
    exchange = std::make_shared<WholeExchange>(
        forward->body, forward->client,
        WholeExchange::Options{.last_event = forward->call.last_event});
    request =
        std::make_shared<http_relay::RelayedRequest>(std::move(head), http::Responder(exchange));
    request->has_body = !forward->body->empty();
  } else {
    const bool streams_body = has_body(forward->call.request);
    if (streams_body && !forward->streamed && runs_anywhere(forward->call.destination)) {
      forward->streamed = std::make_shared<ResendableExchange>(forward->client, kept_of_bodies_);
    }
    request = std::make_shared<http_relay::RelayedRequest>(
        std::move(head),
        forward->streamed ? http::Responder(forward->streamed) : std::move(*forward->client));
    request->has_body = streams_body;
    request->upgrade = http::upgrade_of(forward->call.request.headers);
  }
  const bool tells = entry->report.tells_not_begun;
  if (forward->body || !request->has_body || forward->streamed) {
    request->keeps = [tells, streamed = forward->streamed](const http::Response& answer) {
      if (not_begun_by(answer.headers, tells) == NotBegun::kNo) return false;
      return !streamed || streamed->refused();
    };
  }
  // Weak: the request has the responder, which has this.
  request->responder.on_disconnect([weak = std::weak_ptr(request)] {
    const auto live = weak.lock();
    if (!live) return;
    live->client_is_gone = true;
    if (const auto gone = std::exchange(live->on_client_gone, nullptr)) gone();
  });
  // One that gives way makes no handshake before it is the new program.
  const Instant now = uses_.loop.now();
  const Duration connect_time =
      table_.may_be_silent(node, now)
          ? std::max(NodeLinks::kConnectTime, table_.find(node)->silent_until - now)
          : NodeLinks::kConnectTime;
  links_.send(
      endpoint, request, Duration::zero(),
      [this, forward, node, exchange, request, tells](const LinkEnd& how) {
        if (forward->streamed) {
          forward->streamed->rest();
        } else if (!exchange) {
          *forward->client = std::move(request->responder);
        }
        if (request->kept && how.kind == LinkEnd::Kind::kAnswered) {
          return kept_from(forward, node, request->kept->status,
                           not_begun_by(request->kept->headers, tells));
        }
        sent(forward, node, exchange.get(), request->answered, how);
      },
      connect_time);
}

// The node has begun nothing of the request: it stops, or does not have the function.
void ClusterNode::kept_from(const ForwardPtr& forward, const std::string& node, int status,
                            NotBegun why) {
  if (MemberTable::Entry* entry = table_.find(node); entry != nullptr && entry->outstanding > 0) {
    --entry->outstanding;
  }
  if (forward->streamed && forward->streamed->client_is_gone()) return;
  if (why == NotBegun::kNotHere) {
    return forward->was_home ? not_there(forward, status) : go_home(forward);
  }
  table_.stops(node);
  tell_watchers();
  forward->refused_by = node;
  if (runs_anywhere(forward->call.destination) && !forward->was_home &&
      forward->attempts < kMostAttempts) {
    ++counts_.retried;
    return choose(forward);
  }
  forward->refuse({ErrorCode::kUnavailable,
                   "node '" + node + "' is stopping, and has begun nothing of it; try again"});
}

// The home does not have it either, or cannot tell.
void ClusterNode::not_there(const ForwardPtr& forward, int status) {
  if (facts_.find(forward->call.function)) return answer_here(forward);  // this node's own
  const std::string function = "function '" + forward->call.function.name + "'";
  if (status != 503) return forward->refuse({ErrorCode::kNotFound, function + " does not exist"});
  forward->refuse({ErrorCode::kUnavailable, "node '" + home() + "' cannot tell now whether " +
                                                function + " exists; try again"});
}

void ClusterNode::sent(const ForwardPtr& forward, const std::string& node, WholeExchange* exchange,
                       bool answered, const LinkEnd& how) {
  if (MemberTable::Entry* entry = table_.find(node); entry != nullptr && entry->outstanding > 0) {
    --entry->outstanding;
  }
  if (how.kind == LinkEnd::Kind::kClientLeft) return;
  if (how.kind == LinkEnd::Kind::kAnswered) {
    if (uses_.forwarded) uses_.forwarded(uses_.loop.now() - forward->sent_at);
    if (changes_catalog(forward->call.destination)) changed();
    const bool changes_volumes = forward->call.destination == http::Destination::kHomeOnly &&
                                 forward->call.request.method != "GET";
    if (changes_volumes && facts_.volumes_changed) facts_.volumes_changed();
    return;
  }
  // What was cut off by one that gives way says nothing of the program that comes.
  const bool was_announced =
      how.kind == LinkEnd::Kind::kLost && table_.may_be_silent(node, uses_.loop.now());
  if (!was_announced) {
    table_.unreachable(node);
    tell_watchers();
  }
  uses_.log.warning("node_unreachable", {{"node", node}, {"error", how.why}});
  const auto destination = forward->call.destination;
  const bool not_sent = how.kind == LinkEnd::Kind::kNotSent;
  const bool has_begun = exchange != nullptr ? exchange->passed_on() : answered;
  if (has_begun) {
    ++counts_.lost;
    if (exchange != nullptr) return exchange->cut_off(node_lost(node, how.why));
    *forward->client = http::Responder(nullptr);  // its client sees that the answer is cut off
    return;
  }
  const bool elsewhere = destination == http::Destination::kHomeOrHere ||
                         (destination == http::Destination::kHome && shares_catalog_);
  if (elsewhere && not_sent) return answer_here(forward);
  if (changes_catalog(destination) && not_sent) {
    return forward->refuse({ErrorCode::kUnavailable,
                            "the catalog is at node '" + node + "', which cannot be reached (" +
                                how.why + "): functions can be invoked, not changed"});
  }
  if (destination == http::Destination::kHomeOnly && not_sent) {
    return forward->refuse({ErrorCode::kUnavailable,
                            "node '" + node +
                                "' keeps volumes and layers, and cannot be reached (" + how.why +
                                "): functions run with what other nodes have of them"});
  }
  const bool runs_once = destination == http::Destination::kAnyNode ||
                         destination == http::Destination::kHereOrAnyNode;
  const bool may_go_on = (not_sent && runs_once) ||
                         (destination == http::Destination::kAnyNodeAndMore && exchange != nullptr);
  if (may_go_on && !forward->was_home && forward->attempts < kMostAttempts) {
    ++counts_.retried;
    return choose(forward);
  }
  ++counts_.lost;
  if (not_sent) {
    return forward->refuse({ErrorCode::kUnavailable, "NodeLost: node '" + node +
                                                         "' cannot be reached (" + how.why +
                                                         "); nothing of the request was sent"});
  }
  // Nothing says that it may be sent again.
  forward->client->send(forward->call.response_of(node_lost(node, how.why)));
}

}  // namespace lambent::cluster
