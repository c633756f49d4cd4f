// Observes the frames that a rail has moved, to show what carried what.
//
// Owner: a rail has its observer until it is destroyed; FabricOptions have the maker. Thread: the rail's own,
// between two frames, so an observer neither waits nor allocates.
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
  // The frame's bytes went between the two times; several that went at once have the same.
  virtual void OnSent(const wire::FrameHeader& header, std::uint64_t begin_ns,
                      std::uint64_t end_ns) = 0;
  // With what was done with its payload on the rail's thread.
  virtual void OnReceived(const wire::FrameHeader& header, std::uint64_t begin_ns,
                          std::uint64_t end_ns) = 0;
};

// The loop's thread. `name` is for people; nullptr: nobody wants to know of this rail.
using RailObserverMaker = std::function<std::unique_ptr<RailObserver>(const std::string& name)>;

}  // namespace mlxcomm::rail
