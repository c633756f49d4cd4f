// Observes the frames that a rail has moved. Runs between frames, so it neither waits nor
// allocates.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "proto/wire/frame.h"

namespace mlxcomm::rail {

class RailObserver {
 public:
  virtual ~RailObserver() = default;
  // The frame was written between these times; frames written together have the same times.
  virtual void OnSent(const wire::FrameHeader& header, std::uint64_t begin_ns,
                      std::uint64_t end_ns) = 0;
  // The times include placing the payload.
  virtual void OnReceived(const wire::FrameHeader& header, std::uint64_t begin_ns,
                          std::uint64_t end_ns) = 0;
};

// Returns nullptr if the rail is not observed.
using RailObserverMaker = std::function<std::unique_ptr<RailObserver>(const std::string& name)>;

}  // namespace mlxcomm::rail
