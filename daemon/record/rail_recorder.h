// Gives each rail a track of the flight recorder, where its thread writes the frames that
// carry an operation's payload.
//
// Owner: Daemon. Thread: ObserverFor on the engine's; what it gives on the rail's, and
// destroyed when that has ended. Memory: the recorder's.
#pragma once

#include <memory>
#include <string>

#include "daemon/fabric/rail_observer.h"
#include "daemon/telemetry/flight_recorder.h"

namespace mlxcomm {

class RailRecorder final : public fabric::RailObserverMaker {
 public:
  explicit RailRecorder(telemetry::FlightRecorder& recorder) : recorder_(recorder) {}
  std::unique_ptr<fabric::RailObserver> ObserverFor(const std::string& name) override;

 private:
  telemetry::FlightRecorder& recorder_;
};

}  // namespace mlxcomm
