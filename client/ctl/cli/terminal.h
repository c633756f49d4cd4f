// Whether standard output gets colours: on a terminal that has them, unless NO_COLOR is set and not
// empty (https://no-color.org).
//
// Thread: main.
#pragma once

namespace mlxcomm::ctl {

bool ColoursWanted();

}  // namespace mlxcomm::ctl
