// The daemon: builds its parts, connects them, starts, drains and stops them, and hands over to a successor.
// Owner: main. Thread: main; Start() creates the loop's thread. Memory: all of it.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include <asio/io_context.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/fabric/tcp_fabric.h"
#include "daemon/intake/intake.h"
#include "daemon/loop/hello_sockets.h"
#include "daemon/loop/loop.h"
#include "daemon/metrics/metrics_endpoint.h"
#include "daemon/node/node.h"
#include "daemon/process/options.h"
#include "daemon/process/signals.h"
#include "daemon/process/successor.h"
#include "daemon/record/event_log.h"
#include "daemon/record/flight_recorder.h"
#include "daemon/record/operation_counts.h"
#include "daemon/services/control_server.h"
#include "daemon/work/scratch_pool.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

class Daemon {
 public:
  // Acquires every resource: socket, ports, identity. Errors name what is missing and the remedy. `signals`
  // gets a stop request when a private daemon is no longer needed.
  static absl::StatusOr<std::unique_ptr<Daemon>> Create(const Options& options,
                                                        const v1::DaemonConfig& config,
                                                        TerminationSignals& signals,
                                                        intake::ListenSocket listen_socket);
  ~Daemon();

  // Fails if the metrics' port is not available.
  absl::Status Start();
  // On SIGHUP, after the log was reopened: reads the cluster's key again, which may make connections prove it
  // again. An invalid file changes nothing. The configuration is only compared with that of the start.
  void Reload(const absl::Status& log_reopened);
  // Refuses new jobs and gives running ones the configured time to finish. If that is not enough, fails them
  // with DAEMON_STOPPING and returns DEADLINE_EXCEEDED.
  absl::Status Drain();
  // On SIGUSR2: examines the successor. If it qualifies, `signals` is notified when no client is left;
  // otherwise the refusal is recorded as an event.
  void RestartWhenIdle(const Successor& successor, TerminationSignals& signals);
  // Once no client is left: examines the successor again and stops this daemon. FAILED_PRECONDITION: it no
  // longer qualifies; this daemon keeps running.
  absl::StatusOr<intake::ListenSocket> HandOver(const Successor& successor);
  // On SIGUSR1: cancels a pending restart and clears a refused one.
  void TakeBackRestart();

 private:
  Daemon() = default;
  bool ReloadKeys();
  void CheckConfigAgain();
  void ReportReload(record::EventSeverity severity, const std::string& object,
                    const std::string& text);
  void OpenHelloSockets();
  void End();

  v1::DaemonConfig config_;
  std::string config_file_;  // Empty: started without one.
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
  std::unique_ptr<services::PostedCalls> calls_;
  std::unique_ptr<services::ControlServer> control_;
  std::unique_ptr<metrics::MetricsEndpoint> metrics_;  // Where it is configured.
  std::thread loop_thread_;
};

}  // namespace mlxcomm
