/* The newest API versions that this library knows. */
#ifndef FDB_C_APIVERSION_G_H
#define FDB_C_APIVERSION_G_H
#pragma once

#define FDB_LATEST_API_VERSION 800
#define FDB_LATEST_BINDINGS_API_VERSION 800

/* The first versions with an option. */
#define FDB_API_VERSION_DISABLE_CLIENT_BYPASS 720
#define FDB_API_VERSION_CLIENT_TMP_DIR 720

#endif
