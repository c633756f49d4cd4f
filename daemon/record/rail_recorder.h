// Gives each rail a track of the flight recorder, in which the rail's thread records frames with
// payload.
//
// Owner: the rail. Thread: RecordRail on the loop's; its result on the rail's, and destroyed after
// that thread has ended. Memory: the recorder's, which outlives it.
#pragma once

#include <memory>
#include <string>

#include "daemon/link/fabric_listener.h"
#include "daemon/record/flight_recorder.h"

namespace mlxcomm {

// nullptr if the recorder has no track left.
std::unique_ptr<rail::RailObserver> RecordRail(record::FlightRecorder& recorder,
                                               const std::string& name);

}  // namespace mlxcomm
