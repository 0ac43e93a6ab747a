require("quartet-server").startQuartet().then((quartet) => console.log(quartet.pid) ?? setInterval(() => {}, 1000));
