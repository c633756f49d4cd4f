/* Includes the installed mlxcomm.h for the module map; pkg-config or -Xcc -I gives its folder. */
#ifndef MLXCOMM_SWIFT_SHIM_H_
#define MLXCOMM_SWIFT_SHIM_H_

#include <client/lib/mlxcomm.h>

#endif /* MLXCOMM_SWIFT_SHIM_H_ */
