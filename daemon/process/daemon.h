// The daemon: builds the rooms, joins them, starts, drains, stops; makes place for another.
//
// Members are in the order in which they are built; destruction is the reverse.
//
// Owner: main. Thread: main; Start() makes the loop's thread. Memory: all of it.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include <asio/io_context.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/control/control_server.h"
#include "daemon/control/metrics_endpoint.h"
#include "daemon/fabric/tcp_fabric.h"
#include "daemon/intake/intake.h"
#include "daemon/loop/hello_sockets.h"
#include "daemon/loop/loop.h"
#include "daemon/node/node.h"
#include "daemon/process/options.h"
#include "daemon/process/signals.h"
#include "daemon/process/successor.h"
#include "daemon/record/event_log.h"
#include "daemon/record/flight_recorder.h"
#include "daemon/record/operation_counts.h"
#include "daemon/work/scratch_pool.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

class Daemon {
 public:
  // Takes every resource: socket, ports, identity. Errors name what is missing and
  // how to fix it. `signals` learns when a private daemon has no use any more.
  static absl::StatusOr<std::unique_ptr<Daemon>> Create(const Options& options,
                                                        const v1::DaemonConfig& config,
                                                        TerminationSignals& signals,
                                                        intake::ListenSocket listen_socket);
  ~Daemon();

  // An error: the metrics' port is not available.
  absl::Status Start();
  // At SIGHUP, the log having been reopened: reads the cluster's key again; connections go on,
  // and those proved with a key that is no longer in it are proved again. A file that will not do
  // changes nothing. The configuration is read once, at the start; if it has changed, or would
  // not do for the next start, that is reported. Whatever goes wrong is logged, and an event.
  void Reload(const absl::Status& log_reopened);
  // Refuses new jobs, lets running ones end for up to the configured time, then
  // stops them with DAEMON_STOPPING. DEADLINE_EXCEEDED where that was needed.
  absl::Status Drain();
  // At SIGUSR2: another program is to take this one's place. It is examined now, and serves clients no
  // worse; `signals` learns when no client is left. Otherwise it is refused, which is an event.
  void RestartWhenIdle(const Successor& successor, TerminationSignals& signals);
  // When no client is left: examines it again, and ends this daemon for it. FAILED_PRECONDITION: it will not
  // do by now; this daemon serves on.
  absl::StatusOr<intake::ListenSocket> HandOver(const Successor& successor);
  // At SIGUSR1: it stays, whether it was asked to make place or has refused to.
  void TakeBackRestart();

 private:
  Daemon() = default;
  bool ReloadKeys();
  void LookAtConfigAgain();
  void ReportReload(record::EventSeverity severity, const std::string& object,
                    const std::string& text);
  void LookForNeighbours();
  void End();

  v1::DaemonConfig config_;
  std::string config_file_;  // Empty: the defaults.
  bool is_private_ = false;
  asio::io_context io_{1};
  std::unique_ptr<record::FlightRecorder> recorder_;
  std::unique_ptr<record::OperationCounts> operation_counts_;
  record::EventLog events_;
  std::unique_ptr<ScratchPool> scratch_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<intake::Intake> intake_;
  std::unique_ptr<node::Node> node_;
  std::unique_ptr<fabric::TcpFabric> fabric_;
  std::unique_ptr<HelloSockets> hellos_;  // nullptr: discovery is off.
  std::unique_ptr<control::PostedCalls> calls_;
  std::unique_ptr<control::ControlServer> control_;
  std::unique_ptr<control::MetricsEndpoint> metrics_;  // Where it is configured.
  std::thread loop_thread_;
};

}  // namespace mlxcomm
