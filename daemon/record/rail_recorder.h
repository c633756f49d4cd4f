// Gives each rail a track of the flight recorder, where its thread writes the frames that
// carry an operation's payload.
//
// Owner: Daemon. Thread: ObserverFor on the loop's; its result on the rail's, destroyed when that thread has
// ended. Memory: the recorder's.
#pragma once

#include <memory>
#include <string>

#include "daemon/record/flight_recorder.h"
#include "daemon/transport/rail_observer.h"

namespace mlxcomm {

class RailRecorder final : public fabric::RailObserverMaker {
 public:
  explicit RailRecorder(record::FlightRecorder& recorder) : recorder_(recorder) {}
  std::unique_ptr<fabric::RailObserver> ObserverFor(const std::string& name) override;

 private:
  record::FlightRecorder& recorder_;
};

}  // namespace mlxcomm
