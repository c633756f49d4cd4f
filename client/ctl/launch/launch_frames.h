// LaunchFrames (launch.proto) over a pair of pipes to or from ssh, without waiting.
//
// Who reads looks first for kFramesBegin: before it comes whatever the user's shell prints
// when it starts. A frame that is too long or no message ends the reading for good.
//
// Owner: ssh_host, launch_agent. Thread: main. Memory: a frame that is not complete, and
// what waits to be written; who adds to it looks at pending().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mlxcomm/v1/launch.pb.h"

namespace mlxcomm::ctl {

inline constexpr std::string_view kFramesBegin = "mlxcommctl launch, frames 1\n";
inline constexpr std::size_t kLaunchFrameBytesMax = std::size_t{1} << 20;
// So much of a stream is put into one frame, and so much input is under way at most.
inline constexpr std::size_t kLaunchPieceBytes = 32 * 1024;
inline constexpr std::size_t kLaunchInputBytesMax = 256 * 1024;

class FrameReader {
 public:
  // What comes before the first frame: each line of it once, by TakeNoise.
  explicit FrameReader(bool noise_first) : begun_(!noise_first) {}

  // Takes what has come. False: the end, or an error.
  bool ReadFrom(int descriptor);
  void Add(std::string_view bytes);
  // The next frame that is complete.
  bool Take(v1::LaunchFrame& frame);
  bool TakeNoise(std::string& line);
  // Why nothing can be understood any more; empty: all is well.
  const std::string& error() const { return error_; }

 private:
  std::size_t left() const { return bytes_.size() - taken_; }

  bool begun_;
  std::string bytes_;
  std::size_t taken_ = 0;  // Of them; dropped when more come.
  std::size_t noise_bytes_ = 0;
  std::string error_;
};

class FrameWriter {
 public:
  void Begin() { bytes_.append(kFramesBegin); }
  void Add(const v1::LaunchFrame& frame);
  // False: nobody reads there any more.
  bool WriteTo(int descriptor);
  std::size_t pending() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

}  // namespace mlxcomm::ctl
