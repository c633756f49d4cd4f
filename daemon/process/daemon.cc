#include "daemon/process/daemon.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include <google/protobuf/util/message_differencer.h>
#include <spdlog/spdlog.h>
#include <asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/system_facts.h"
#include "daemon/process/config_file.h"
#include "daemon/process/transports.h"
#include "daemon/record/rail_recorder.h"
#include "proto/key/key_file.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/types/version.h"

namespace mlxcomm {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// Indexed by the configuration's enums.
constexpr link::Security kSecurity[] = {link::Security::kAuto, link::Security::kTls,
                                        link::Security::kPlain};
constexpr intake::UserNaming kNaming[] = {intake::UserNaming::kByName, intake::UserNaming::kByUid,
                                          intake::UserNaming::kShared};
constexpr queue::Scheduling kScheduling[] = {queue::Scheduling::kAuto, queue::Scheduling::kFewCores,
                                             queue::Scheduling::kManyCores};

queue::Scheduling SchedulingOf(const Options& options, const v1::DaemonConfig& config) {
  return options.scheduling.value_or(kScheduling[config.scheduling()]);
}

absl::StatusOr<link::FabricOptions> MakeFabricOptions(const v1::DaemonConfig& config,
                                                      const link::NodeIdentity& self) {
  link::FabricOptions options;
  options.self = self;
  options.cluster = config.cluster();
  const v1::PeerConfig& peers = config.peers();
  options.listen.assign(peers.listen().begin(), peers.listen().end());
  options.connect.assign(peers.connect().begin(), peers.connect().end());
  if (!peers.key_file().empty()) {
    absl::StatusOr<ClusterKeys> keys = ReadKeyFile(peers.key_file());
    if (!keys.ok()) return keys.status();
    options.keys = *std::move(keys);
  }
  options.security.elsewhere = kSecurity[peers.security()];
  for (const v1::PeerConfig::InterfaceSecurity& one : peers.interface_security()) {
    options.security.on_interface[one.interface()] = kSecurity[one.security()];
  }
  options.heartbeat_interval_ns = peers.heartbeat_interval_ms() * kMs;
  options.heartbeat_timeout_ns = peers.heartbeat_timeout_ms() * kMs;
  options.grace_period_ns = peers.grace_period_ms() * kMs;
  options.reset_grace_ns = peers.reset_grace_ms() * kMs;
  options.queued_frames_max = peers.queued_frames_max();
  options.copied_bytes_max = peers.queued_bytes_max();
  options.nodes_max = peers.nodes_max();
  options.reconnect_delay_min_ns = peers.reconnect_delay_min_ms() * kMs;
  options.reconnect_delay_max_ns = peers.reconnect_delay_max_ms() * kMs;
  return options;
}

std::vector<DerivedKey> HelloKeysOf(const ClusterKeys& keys) {
  std::vector<DerivedKey> derived = {keys.current.Derive("hello")};
  if (keys.previous.has_value()) derived.push_back(keys.previous->Derive("hello"));
  return derived;
}

// A configuration that lists addresses gets no others unless it enables discovery.
absl::StatusOr<bool> UsesDiscovery(const Options& options, const v1::DaemonConfig& config,
                                   bool has_key) {
  if (options.is_private) return false;
  const v1::PeerConfig& peers = config.peers();
  if (!config.discovery().has_enabled()) {
    return has_key && peers.listen_size() == 0 && peers.connect_size() == 0;
  }
  if (config.discovery().enabled() && !has_key) {
    return absl::FailedPreconditionError(
        "discovery needs the cluster's key: set peers { key_file } in the configuration");
  }
  return config.discovery().enabled();
}

absl::StatusOr<link::NodeIdentity> MakeIdentity(const Options& options,
                                                const v1::DaemonConfig& config) {
  link::NodeIdentity self;
  if (options.is_private) {
    self.id = MakeNodeId();
  } else {
    const absl::StatusOr<NodeId> id = ReadOrMakeNodeId(config.state_directory());
    if (!id.ok()) return id.status();
    self.id = *id;
  }
  self.name = config.node_name();
  self.software_version = kSoftwareVersion;
  self.incarnation = rail::RandomNumber();
  return self;
}

intake::IntakeOptions MakeIntakeOptions(const Options& options, const v1::DaemonConfig& config) {
  const v1::ClientConfig& clients = config.clients();
  intake::IntakeOptions made;
  made.socket_path = options.socket_path.empty() ? config.socket_path() : options.socket_path;
  made.clients_max = clients.clients_max();
  made.arena_bytes_max = clients.arena_bytes_max();
  made.hello_timeout_ns = clients.hello_timeout_ms() * kMs;
  made.scheduling = SchedulingOf(options, config);
  made.spin_ms = static_cast<std::uint16_t>(config.spin_ms());
  made.rendezvous_timeout_ns = clients.rendezvous_timeout_ms() * kMs;
  made.ranks_meet = config.ranks_meet();
  // A private daemon serves one user.
  made.all_users = clients.all_users() && !options.is_private;
  made.users = {options.is_private ? intake::UserNaming::kShared : kNaming[clients.users()],
                options.is_private ? std::string() : clients.operators_group(),
                clients.unknown_users()};
  made.per_user = {clients.clients_per_user_max(), clients.arena_bytes_per_user_max(),
                   clients.operations_per_user_max()};
  made.all = {0, clients.arena_bytes_all_max(), clients.operations_max()};
  return made;
}

// The default depends on whether the daemon serves all users (proto/mlxcomm/v1/config.proto).
std::size_t GroupsPerUser(const Options& options, const v1::ClientConfig& clients) {
  constexpr std::size_t kAll = jobs::Membership::kGroupsMax;
  if (clients.groups_per_user_max() != 0) {
    return std::min<std::size_t>(clients.groups_per_user_max(), kAll);
  }
  return clients.all_users() && !options.is_private ? kAll - kAll / 4 : kAll;
}

// Tools that read the file run in another directory.
std::string Absolute(const std::string& path) {
  std::error_code ignored;
  return path.empty() ? path : std::filesystem::absolute(path, ignored).string();
}

node::NodeOptions MakeNodeOptions(const Options& options, const v1::DaemonConfig& config,
                                  const link::FabricOptions& fabric) {
  node::NodeOptions made;
  made.fabric = fabric;
  made.fabric.keys.reset();  // TcpFabric proves them.
  made.config_file = Absolute(options.config_file);
  made.key_file = Absolute(config.peers().key_file());
  made.operation_timeout_ns = config.clients().operation_timeout_ms() * kMs;
  made.stalled_timeout_ns = config.clients().stalled_timeout_ms() * kMs;
  made.rendezvous_timeout_ns = config.clients().rendezvous_timeout_ms() * kMs;
  made.way_timeout_ns = std::max(made.way_timeout_ns, fabric.grace_period_ns);
  made.groups_per_user_max = GroupsPerUser(options, config.clients());
  made.link_latency_ns = std::uint64_t{config.peers().link_latency_us()} * 1000;
  made.link_bytes_per_second = config.peers().link_bytes_per_second();
  made.is_stopped = [](std::uint64_t pid) { return platform::IsStopped(static_cast<pid_t>(pid)); };
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Create(const Options& options,
                                                       const v1::DaemonConfig& config,
                                                       TerminationSignals& signals,
                                                       intake::ListenSocket listen_socket) {
  std::unique_ptr<Daemon> daemon(new Daemon);
  daemon->config_ = config;
  daemon->config_file_ = options.config_file;
  daemon->is_private_ = options.is_private;
  const absl::StatusOr<link::NodeIdentity> self = MakeIdentity(options, config);
  if (!self.ok()) return self.status();
  absl::StatusOr<link::FabricOptions> fabric_options = MakeFabricOptions(config, *self);
  if (!fabric_options.ok()) return fabric_options.status();
  const std::uint32_t cores = queue::UsableCores();
  const auto scheduling = queue::SchedulingPolicy::Choose(SchedulingOf(options, config), cores);
  spdlog::info("scheduling for {} cores ({} usable)", scheduling.waiting.gives_way ? "few" : "many",
               cores);
  fabric_options->scheduling = scheduling;
  const absl::StatusOr<bool> discovers =
      UsesDiscovery(options, config, fabric_options->keys.has_value());
  if (!discovers.ok()) return discovers.status();

  daemon->recorder_ = std::make_unique<record::FlightRecorder>(self->name);
  daemon->operation_counts_ = std::make_unique<record::OperationCounts>();
  daemon->scratch_ = std::make_unique<ScratchPool>(config.scratch_bytes_max());
  fabric_options->rail_observers = [&recorder = *daemon->recorder_](const std::string& name) {
    return RecordRail(recorder, name);
  };

  const LoopOptions loop_options{.scheduling = scheduling,
                                 .ends_with_last_client = options.is_private,
                                 .on_useless = [&signals] { signals.RequestStop(); }};
  daemon->loop_ =
      std::make_unique<Loop>(daemon->io_, loop_options, *daemon->recorder_, daemon->events_);

  auto intake = intake::Intake::Create(daemon->io_, MakeIntakeOptions(options, config),
                                       *daemon->loop_, std::move(listen_socket));
  if (!intake.ok()) return intake.status();
  daemon->intake_ = *std::move(intake);

  node::NodeOptions node_options = MakeNodeOptions(options, config, *fabric_options);
  if (*discovers) node_options.hello_keys = HelloKeysOf(*fabric_options->keys);
  daemon->node_ = std::make_unique<node::Node>(std::move(node_options), *daemon->scratch_,
                                               *daemon->recorder_, *daemon->operation_counts_,
                                               daemon->events_, *daemon->intake_, *daemon->loop_,
                                               &platform::MonotonicNow, platform::MonotonicNow());
  auto fabric = fabric::TcpFabric::Create(daemon->io_, *std::move(fabric_options),
                                          daemon->node_->links(), MakeSideRails(config));
  if (!fabric.ok()) return fabric.status();
  daemon->fabric_ = *std::move(fabric);
  if (*discovers) daemon->OpenHelloSockets();
  intake::Intake& from = *daemon->intake_;
  daemon->calls_ = std::make_unique<services::PostedCalls>(daemon->io_, *daemon->node_,
                                                           [&from] { return from.Poll(); });
  daemon->control_ = services::ControlServer::Create(
      *daemon->calls_, [&from](auto token, auto peer) { return from.Find(token, peer); },
      *daemon->recorder_, daemon->events_);
  daemon->loop_->Join({*daemon->node_, *daemon->intake_, *daemon->fabric_, *daemon->control_,
                       *daemon->scratch_, daemon->hellos_.get()});
  return daemon;
}

void Daemon::OpenHelloSockets() {
  HelloSocketOptions options;
  const auto& interfaces = config_.discovery().interfaces();
  options.interfaces.assign(interfaces.begin(), interfaces.end());
  options.port = static_cast<std::uint16_t>(config_.discovery().port());
  hellos_ = std::make_unique<HelloSockets>(io_, std::move(options), *fabric_, *node_);
}

absl::Status Daemon::Start() {
  if (!config_.metrics().listen().empty()) {
    const auto ask_loop = [this](auto answer) {
      calls_->Ask(std::move(answer), [this](node::Node& node, auto asked) {
        asked->Succeed({node.Metrics(), loop_->wakeups()});
      });
    };
    auto created =
        metrics::MetricsEndpoint::Create(config_.metrics().listen(), ask_loop, *operation_counts_);
    if (!created.ok()) return created.status();
    metrics_ = *std::move(created);
    spdlog::info("serving metrics for Prometheus on {}, port {}, /metrics",
                 config_.metrics().listen(), metrics_->port());
  }
  for (const std::string& address : fabric_->listening()) {
    spdlog::info("listening for peers on {}", address);
  }
  spdlog::info("mlxcommd {} is ready: node {}, cluster {}", kSoftwareVersion, config_.node_name(),
               config_.cluster());
  if (hellos_ != nullptr) hellos_->Start();
  loop_thread_ = std::thread([this] { loop_->Run(); });
  return absl::OkStatus();
}

void Daemon::ReportReload(record::EventSeverity severity, const std::string& object,
                          const std::string& text) {
  struct Row {
    spdlog::level::level_enum level;
    const char* kind;
  };
  constexpr Row kRows[] = {{spdlog::level::info, "reloaded"},
                           {spdlog::level::warn, "restart_needed"},
                           {spdlog::level::err, "reload_failed"}};
  const Row& row = kRows[static_cast<std::size_t>(severity)];
  spdlog::log(row.level, "SIGHUP: {}: {}", object, text);
  events_.Report(row.kind, severity, object, text);
}

void Daemon::Reload(const absl::Status& log_reopened) {
  if (!log_reopened.ok()) {
    ReportReload(record::EventSeverity::kError, "log", std::string(log_reopened.message()));
  }
  // Reading the configuration would report a mistake in the key file again.
  if (ReloadKeys()) CheckConfigAgain();
}

// False if the file is invalid.
bool Daemon::ReloadKeys() {
  const std::string& path = config_.peers().key_file();
  if (path.empty()) return true;
  absl::StatusOr<ClusterKeys> keys = ReadKeyFile(path);
  if (!keys.ok()) {
    ReportReload(record::EventSeverity::kError, "cluster key",
                 absl::StrCat("keeping the present keys: ", keys.status().message()));
    return false;
  }
  ReportReload(record::EventSeverity::kNote, "cluster key",
               absl::StrCat("accepts ", keys->current.IdText(),
                            keys->previous.has_value() ? " and still " : "",
                            keys->previous.has_value() ? keys->previous->IdText() : ""));
  asio::post(io_, [this, keys = *std::move(keys)] {
    fabric_->SetKeys(keys);
    node_->SetHelloKeys(HelloKeysOf(keys));
  });
  return true;
}

void Daemon::CheckConfigAgain() {
  if (is_private_ && config_file_.empty()) return;  // Started without one.
  const absl::StatusOr<v1::DaemonConfig> now = ReadConfigFile(config_file_);
  if (!now.ok()) {
    ReportReload(record::EventSeverity::kError, "configuration",
                 absl::StrCat("keeping the present one, but the next start will fail: ",
                              now.status().message()));
  } else if (!google::protobuf::util::MessageDifferencer::Equals(*now, config_)) {
    ReportReload(record::EventSeverity::kWarning, "configuration",
                 absl::StrCat(config_file_.empty() ? "the defaults have" : config_file_ + " has",
                              " changed since mlxcommd started: restart it to apply the change"));
  }
}

absl::Status Daemon::Drain() {
  const std::uint64_t timeout_ms = config_.drain_timeout_ms();
  spdlog::info("stopping: running jobs have {} ms to finish", timeout_ms);
  // A private daemon makes room for the next one at once. Others still serve mlxcommctl status.
  asio::post(io_, [this] {
    if (is_private_) return intake_->StopAccepting();
    intake_->RefuseClients(
        {FailureCode::kDaemonStopping, kNoRank,
         absl::StrCat("it is stopping and gives running jobs at most ",
                      (config_.drain_timeout_ms() + 999) / 1000,
                      " s to finish (mlxcommctl status shows how many): try again once it has "
                      "restarted")});
  });
  const bool drained = loop_->Drain(timeout_ms * kMs);
  End();
  if (!drained) {
    return absl::DeadlineExceededError(
        absl::StrCat("jobs were still running after ", timeout_ms,
                     " ms (drain_timeout_ms); their processes received DAEMON_STOPPING"));
  }
  spdlog::info("stopped");
  return absl::OkStatus();
}

void Daemon::End() {
  metrics_.reset();  // Its requests block on the loop.
  loop_->RequestStop();
  loop_thread_.join();
  intake_->StopAccepting();
  if (hellos_ != nullptr) hellos_->Stop();
  fabric_->Stop();
  // gRPC ends once every call has been answered, including those that arrived just now.
  std::atomic<bool> ended{false};
  std::thread shutdown([&] {
    control_->Shutdown(100 * kMs);
    ended = true;
  });
  while (!ended) {
    loop_->AnswerOpenCalls();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  shutdown.join();
}

void Daemon::RestartWhenIdle(const Successor& successor, TerminationSignals& signals) {
  if (is_private_) {
    return loop_->RefuseNext(absl::FailedPreconditionError(
        "a private daemon ends with its clients, and the next one runs the new program"));
  }
  absl::StatusOr<NextProgram> next = successor.Examine();
  if (!next.ok()) return loop_->RefuseNext(next.status());
  loop_->LeaveWhenIdle(*std::move(next), [&signals] { signals.NotifyIdle(); });
}

absl::StatusOr<intake::ListenSocket> Daemon::HandOver(const Successor& successor) {
  const absl::StatusOr<NextProgram> next = successor.Examine();
  absl::StatusOr<intake::ListenSocket> listen_socket =
      next.ok() ? loop_->HandOver(*next) : absl::StatusOr<intake::ListenSocket>(next.status());
  if (!listen_socket.ok()) {
    loop_->RefuseHandOver(listen_socket.status());
    return listen_socket;
  }
  spdlog::info("all clients have left: mlxcommd {} takes over", next->release);
  End();
  return listen_socket;
}

Daemon::~Daemon() {
  metrics_.reset();
  if (loop_thread_.joinable()) {
    loop_->RequestStop();
    loop_thread_.join();
  }
  control_.reset();
  if (hellos_ != nullptr) hellos_->Stop();
  if (fabric_ != nullptr) fabric_->Stop();
  if (loop_ != nullptr)
    loop_->StopWorkers();  // They may still use a client's arena, which the intake owns.
  node_.reset();           // Its links' rails use the fabric, and its discovery the hellos.
  hellos_.reset();
  fabric_.reset();
  calls_.reset();
  intake_.reset();
  loop_.reset();
}

}  // namespace mlxcomm
