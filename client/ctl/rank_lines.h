// What ranks print, as lines behind their rank: "[3] loss 0.1". A line comes whole, also where
// ranks print at once; the states of progress bars (carriage returns) are lines too.
//
// Owner: launch. Thread: main. Memory: of each rank and stream a line, at most kLineBytesMax.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

class RankLines {
 public:
  // A line that is longer is shown in pieces.
  static constexpr std::size_t kLineBytesMax = 64 * 1024;

  explicit RankLines(bool prefix) : prefix_(prefix) {}

  // False, as below: nobody reads our output any more. A full disk ends no job, and is said
  // once.
  bool Print(unsigned rank, int stream, std::string_view bytes);
  // What is left of a line.
  bool End(unsigned rank, int stream);
  bool EndAll();

 private:
  struct Stream {
    std::string partial;
    bool returned = false;  // The last byte was a carriage return.
  };

  void PrintLine(unsigned rank, int stream, std::string& line) const;
  bool Flush(int stream);

  const bool prefix_;
  bool said_lost_ = false;
  std::map<unsigned, std::array<Stream, 2>> ranks_;
};

}  // namespace mlxcomm::ctl
