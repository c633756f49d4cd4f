// The text of a stream that another program wrote, up to a limit; memory is used only for what
// there is.
//
// Thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <istream>
#include <string>

namespace mlxcomm {

// False: the stream has failed, or has more than `most` bytes (then `text` has more too).
inline bool ReadAtMost(std::istream& stream, std::size_t most, std::string& text) {
  std::array<char, 16 * 1024> piece;
  text.clear();
  while (stream.good() && text.size() <= most) {
    stream.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
  }
  return !stream.bad() && text.size() <= most;
}

}  // namespace mlxcomm
